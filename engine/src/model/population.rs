//! Population: the facts of a pod that selectors read. Pods of one namespace with the same labels are one population.

use super::intern::Symbol;
use super::label::Labels;
use super::table::Table;

/// Id of a population as long as anything refers to it; ids are never reused.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct PopulationId(pub(crate) u64);

/// An interned population. Two populations of one table are equal exactly if their ids are.
#[derive(Debug)]
pub(crate) struct Population {
    pub(crate) id: PopulationId,
    pub(crate) facts: PopulationFacts,
}

/// Namespace and labels, and whether the pods are being deleted: such pods do not count for spreading (S-PTS-5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PopulationFacts {
    pub(crate) namespace: Symbol,
    pub(crate) labels: Labels,
    pub(crate) is_terminating: bool,
}

/// Interned populations of all pods.
pub(crate) type PopulationTable = Table<PopulationFacts, Population>;

impl Population {
    /// The population, and about how many bytes it takes with its entry.
    pub(crate) fn new(id: u64, facts: PopulationFacts) -> (Population, usize) {
        let n_bytes = 256 + 2 * size_of_val(&*facts.labels);
        (Population { id: PopulationId(id), facts }, n_bytes)
    }
}
