//! PopulationIndex: the rows of pods by namespace and labels. Updated in one step for every pod on a node.

use std::sync::Arc;

use imbl::OrdMap;

use super::postings::Postings;
use crate::model::intern::Symbol;
use crate::model::population::{Population, PopulationId};
use crate::rows::NodeRow;

/// Populations of the pods on nodes. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct PopulationIndex {
    pods: Postings<PopulationId>,
    /// Populations by each of their labels, and once more under the empty key and value.
    by_label: OrdMap<(Symbol, Symbol, Symbol, PopulationId), Arc<Population>>,
}

const FIRST: PopulationId = PopulationId(0);

impl PopulationIndex {
    /// Adds a pod on a row.
    pub(crate) fn add(&mut self, population: &Arc<Population>, row: NodeRow) {
        if self.pods.add(population.id, row) {
            for key in label_keys(population) {
                self.by_label.insert(key, population.clone());
            }
        }
    }

    /// Removes a pod of a row.
    pub(crate) fn remove(&mut self, population: &Population, row: NodeRow) {
        if self.pods.remove(population.id, row) {
            for key in label_keys(population) {
                self.by_label.remove(&key);
            }
        }
    }

    /// The rows with pods of a population, and the number of these pods.
    pub(crate) fn rows_of(&self, id: PopulationId) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        self.pods.rows_of(id)
    }

    /// Passes the rows of a population to a function with parts of the number of its pods ([`Postings::for_each_part`]).
    pub(crate) fn for_each_part(&self, id: PopulationId, found: impl FnMut(NodeRow, i32)) {
        self.pods.for_each_part(id, found);
    }

    /// Populations of a namespace, or of all, that have this label.
    pub(crate) fn with_label(
        &self,
        key: Symbol,
        value: Symbol,
        namespace: Option<Symbol>,
    ) -> impl Iterator<Item = &Arc<Population>> {
        let from = (key, value, namespace.unwrap_or(Symbol::EMPTY), FIRST);
        let found = self.by_label.range(from..);
        found
            .take_while(move |((k, v, n, _), _)| {
                *k == key && *v == value && namespace.is_none_or(|namespace| *n == namespace)
            })
            .map(|(_, population)| population)
    }

    /// All populations of a namespace, or of all.
    pub(crate) fn all(&self, namespace: Option<Symbol>) -> impl Iterator<Item = &Arc<Population>> {
        self.with_label(Symbol::EMPTY, Symbol::EMPTY, namespace)
    }
}

/// Index keys of a population's labels, plus the empty key, which no label has, for lookups of all.
fn label_keys(
    population: &Population,
) -> impl Iterator<Item = (Symbol, Symbol, Symbol, PopulationId)> + '_ {
    let everyone = (Symbol::EMPTY, Symbol::EMPTY);
    let labels = population.facts.labels.iter().copied();
    std::iter::once(everyone)
        .chain(labels)
        .map(|(key, value)| (key, value, population.facts.namespace, population.id))
}
