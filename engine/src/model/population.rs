//! Population: the facts of a pod that selectors read. Pods of one namespace with the same labels are one population.

use super::intern::Symbol;
use super::label::Labels;

/// Id of a population as long as anything refers to it; ids are never reused.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct PopulationId(pub(crate) u32);

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

impl Population {
    pub(crate) fn new(id: u32, facts: PopulationFacts) -> Population {
        Population { id: PopulationId(id), facts }
    }
}
