//! PopulationIndex: which pods are where, by namespace and labels. Changes with every pod on a node, by one step each.

use std::sync::Arc;

use imbl::OrdMap;

use super::NodeRow;
use crate::model::intern::Symbol;
use crate::model::population::{Population, PopulationId};

/// Populations of the pods on nodes. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct PopulationIndex {
    /// How many pods of a population each row has.
    pods: OrdMap<(PopulationId, NodeRow), u32>,
    /// On how many rows each population is.
    n_rows: OrdMap<PopulationId, u32>,
    /// Populations by each of their labels, and all of them under the empty key and value.
    by_label: OrdMap<(Symbol, Symbol, Symbol, PopulationId), Arc<Population>>,
}

const FIRST_ROW: NodeRow = NodeRow::FIRST;
const FIRST: PopulationId = PopulationId(0);

impl PopulationIndex {
    /// A pod came to a row.
    pub(crate) fn add(&mut self, population: &Arc<Population>, row: NodeRow) {
        let n_pods = self.pods.entry((population.id, row)).or_insert(0);
        *n_pods += 1;
        if *n_pods > 1 {
            return;
        }
        let n_rows = self.n_rows.entry(population.id).or_insert(0);
        *n_rows += 1;
        if *n_rows == 1 {
            for key in label_keys(population) {
                self.by_label.insert(key, population.clone());
            }
        }
    }

    /// A pod left a row.
    pub(crate) fn remove(&mut self, population: &Population, row: NodeRow) {
        let key = (population.id, row);
        let Some(n_pods) = self.pods.get_mut(&key) else {
            debug_assert!(false, "a pod that was never added");
            return;
        };
        *n_pods -= 1;
        if *n_pods > 0 {
            return;
        }
        self.pods.remove(&key);
        let n_rows = self.n_rows.entry(population.id).or_insert(1);
        *n_rows -= 1;
        if *n_rows == 0 {
            self.n_rows.remove(&population.id);
            for key in label_keys(population) {
                self.by_label.remove(&key);
            }
        }
    }

    /// The rows that have pods of a population, and how many.
    pub(crate) fn rows_of(&self, id: PopulationId) -> impl Iterator<Item = (NodeRow, u32)> + '_ {
        let rows = self.pods.range((id, FIRST_ROW)..);
        rows.take_while(move |((of, _), _)| *of == id).map(|((_, row), n_pods)| (*row, *n_pods))
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

/// No label has an empty key, so the empty one stands for all.
fn label_keys(
    population: &Population,
) -> impl Iterator<Item = (Symbol, Symbol, Symbol, PopulationId)> + '_ {
    let everyone = (Symbol::EMPTY, Symbol::EMPTY);
    let labels = population.facts.labels.iter().copied();
    std::iter::once(everyone)
        .chain(labels)
        .map(|(key, value)| (key, value, population.facts.namespace, population.id))
}
