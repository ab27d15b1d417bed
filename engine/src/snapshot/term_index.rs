//! TermIndex: the affinity terms that pods on nodes own, with their rows. They apply to every incoming pod (S-IPA-5,
//! S-IS-3).

use std::sync::Arc;

use imbl::OrdMap;

use super::postings::Postings;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::pod_affinity::{Term, TermId};
use crate::rows::NodeRow;

/// Terms owned by the pods on nodes. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermIndex {
    /// Version that changes when a term appears or disappears: equal versions mean equal terms.
    pub(crate) version: u64,
    /// Owners by row; a pod that lists a term twice counts twice.
    owners: Postings<TermId>,
    /// Terms by each label value of which every matching pod has one; terms without such a value are under the empty
    /// key.
    by_anchor: OrdMap<(Symbol, Symbol, TermId), Arc<Term>>,
}

const FIRST: TermId = TermId(0);

impl TermIndex {
    /// Adds a term owned by a pod on a row.
    pub(crate) fn add(&mut self, term: &Arc<Term>, row: NodeRow, version: u64) {
        if self.owners.add(term.id, row) {
            for (key, value) in anchors(term) {
                self.by_anchor.insert((key, value, term.id), term.clone());
            }
            self.version = version;
        }
    }

    /// Removes a term owned by a pod of a row.
    pub(crate) fn remove(&mut self, term: &Term, row: NodeRow, version: u64) {
        if self.owners.remove(term.id, row) {
            for (key, value) in anchors(term) {
                self.by_anchor.remove(&(key, value, term.id));
            }
            self.version = version;
        }
    }

    /// The rows with owners of a term, and their number.
    pub(crate) fn rows_of(&self, id: TermId) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        self.owners.rows_of(id)
    }

    /// Passes the rows with owners of a term to a function with parts of their number ([`Postings::for_each_part`]).
    pub(crate) fn for_each_part(&self, id: TermId, found: impl FnMut(NodeRow, i32)) {
        self.owners.for_each_part(id, found);
    }

    /// All terms that match a pod with these labels in this namespace, without duplicates.
    ///
    /// Cost: one lookup for each label, and one test for each term that names one of them or none.
    pub(crate) fn matching(
        &self,
        namespace: Symbol,
        namespace_labels: &Labels,
        labels: &Labels,
    ) -> Vec<Arc<Term>> {
        let mut found: Vec<Arc<Term>> = Vec::new();
        for (key, value) in labels.iter().copied().chain([(Symbol::EMPTY, Symbol::EMPTY)]) {
            let terms = self.by_anchor.range((key, value, FIRST)..);
            let terms = terms.take_while(|((k, v, _), _)| *k == key && *v == value);
            found.extend(
                terms
                    .map(|(_, term)| term)
                    .filter(|term| term.facts.matches(namespace, namespace_labels, labels))
                    .cloned(),
            );
        }
        found
    }

    /// Whether no pod on a node owns a term.
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

/// Index keys of a term. A pod has one value for each key, so it finds a term under at most one of these.
fn anchors(term: &Term) -> Vec<(Symbol, Symbol)> {
    let Some(selector) = &term.facts.selector else {
        return Vec::new();
    };
    match selector.anchor() {
        Some((key, values)) => values.iter().map(|value| (key, *value)).collect(),
        None => vec![(Symbol::EMPTY, Symbol::EMPTY)],
    }
}
