//! TermIndex: the affinity terms that pods on nodes own, and where. They count for every pod that comes (S-IPA-5, S-IS-3).

use std::sync::Arc;

use imbl::OrdMap;

use super::NodeRow;
use crate::model::intern::Symbol;
use crate::model::label::Labels;
use crate::model::pod_affinity::{Term, TermId};

/// Terms owned by the pods on nodes. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermIndex {
    /// Changes when a term appears or disappears: equal versions mean the same terms.
    pub(crate) version: u64,
    /// How many pods that own a term each row has; a pod that lists a term twice counts twice.
    owners: OrdMap<(TermId, NodeRow), u32>,
    /// On how many rows each term is.
    n_rows: OrdMap<TermId, u32>,
    /// Terms by each label value that whoever they match may have; those that name no value are under the empty key.
    by_anchor: OrdMap<(Symbol, Symbol, TermId), Arc<Term>>,
}

const FIRST_ROW: NodeRow = NodeRow::FIRST;
const FIRST: TermId = TermId(0);

impl TermIndex {
    /// A pod that owns the term came to a row.
    pub(crate) fn add(&mut self, term: &Arc<Term>, row: NodeRow, version: u64) {
        let n_owners = self.owners.entry((term.id, row)).or_insert(0);
        *n_owners += 1;
        if *n_owners > 1 {
            return;
        }
        let n_rows = self.n_rows.entry(term.id).or_insert(0);
        *n_rows += 1;
        if *n_rows == 1 {
            for (key, value) in anchors(term) {
                self.by_anchor.insert((key, value, term.id), term.clone());
            }
            self.version = version;
        }
    }

    /// A pod that owns the term left a row.
    pub(crate) fn remove(&mut self, term: &Term, row: NodeRow, version: u64) {
        let key = (term.id, row);
        let Some(n_owners) = self.owners.get_mut(&key) else {
            debug_assert!(false, "a term that was never added");
            return;
        };
        *n_owners -= 1;
        if *n_owners > 0 {
            return;
        }
        self.owners.remove(&key);
        let n_rows = self.n_rows.entry(term.id).or_insert(1);
        *n_rows -= 1;
        if *n_rows == 0 {
            self.n_rows.remove(&term.id);
            for (key, value) in anchors(term) {
                self.by_anchor.remove(&(key, value, term.id));
            }
            self.version = version;
        }
    }

    /// The rows that have owners of a term, and how many.
    pub(crate) fn rows_of(&self, id: TermId) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        let rows = self.owners.range((id, FIRST_ROW)..);
        rows.take_while(move |((of, _), _)| *of == id).map(|((_, row), n_owners)| (*row, *n_owners))
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
