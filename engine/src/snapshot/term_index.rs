//! TermIndex: the affinity terms that pods on nodes own, and where. They count for every pod that comes (S-IPA-5, S-IS-3).

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
    /// Changes when a term appears or disappears: equal versions mean the same terms.
    pub(crate) version: u64,
    /// A pod that lists a term twice counts twice.
    owners: Postings<TermId>,
    /// Terms by each label value that whoever they match may have; those that name no value are under the empty key.
    by_anchor: OrdMap<(Symbol, Symbol, TermId), Arc<Term>>,
}

const FIRST: TermId = TermId(0);

impl TermIndex {
    /// A pod that owns the term came to a row.
    pub(crate) fn add(&mut self, term: &Arc<Term>, row: NodeRow, version: u64) {
        if self.owners.add(term.id, row) {
            for (key, value) in anchors(term) {
                self.by_anchor.insert((key, value, term.id), term.clone());
            }
            self.version = version;
        }
    }

    /// A pod that owns the term left a row.
    pub(crate) fn remove(&mut self, term: &Term, row: NodeRow, version: u64) {
        if self.owners.remove(term.id, row) {
            for (key, value) in anchors(term) {
                self.by_anchor.remove(&(key, value, term.id));
            }
            self.version = version;
        }
    }

    /// The rows that have owners of a term, and how many.
    pub(crate) fn rows_of(&self, id: TermId) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        self.owners.rows_of(id)
    }

    /// Every term that matches a pod with these labels in this namespace, once.
    ///
    /// Cost: one lookup a label, and one test for each term that names one of them or none.
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

    /// Whether no pod on a node owns any term.
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

/// A pod has one value a key, so it finds a term under one of these at most once.
fn anchors(term: &Term) -> Vec<(Symbol, Symbol)> {
    let Some(selector) = &term.facts.selector else {
        return Vec::new();
    };
    match selector.anchor() {
        Some((key, values)) => values.iter().map(|value| (key, *value)).collect(),
        None => vec![(Symbol::EMPTY, Symbol::EMPTY)],
    }
}
