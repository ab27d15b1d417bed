//! Assumptions: the volume bindings of assumed pods, until the pods are forgotten.

use std::sync::Arc;

use imbl::OrdMap;

use crate::model::intern::Symbol;
use crate::model::key::PodKey;
use crate::model::volume::VolumeBindings;

/// The bindings of assumed pods. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(super) struct Assumptions(pub(super) OrdMap<PodKey, Arc<Assumption>>);

/// The bindings assumed with one pod.
#[derive(Debug)]
pub(crate) struct Assumption {
    pub(super) id: AssumptionId,
    pub(super) node: Symbol,
    pub(super) bindings: VolumeBindings,
}

/// Id of an assumption; later ones are larger.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AssumptionId(pub(super) u64);

impl AssumptionId {
    /// The smallest id, before every other.
    pub(super) const FIRST: AssumptionId = AssumptionId(0);
}
