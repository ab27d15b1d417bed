//! Similar pods: those of one controller with the same labels and the same spec. Rule: S-CAS-5.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::model::Pod;
use crate::model::controller::ControllerId;
use crate::model::population::PopulationId;
use crate::model::shape::ShapeId;
use crate::policy::Policy;

/// The kinds of pods that did not fit, by controller.
#[derive(Default)]
pub(super) struct Similar {
    by_controller: FxHashMap<ControllerId, SmallVec<[(Kind, usize); 1]>>,
    skipped: FxHashSet<ControllerId>,
    overflowing: FxHashSet<ControllerId>,
}

/// Kinds of one controller's pods that are remembered; most controllers have one.
const MAX_KINDS: usize = 10;

/// What tells pods of a controller apart.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Kind {
    shape: ShapeId,
    population: PopulationId,
    policy: u64,
}

impl Similar {
    /// The position of a pod like this one that did not fit.
    pub(super) fn find(&mut self, pod: &Pod, policy: &Policy) -> Option<usize> {
        let (owner, kind) = (pod.facts().controller?, Kind::of(pod, policy)?);
        let known = self.by_controller.get(&owner)?;
        let (_, at) = known.iter().find(|(known, _)| *known == kind)?;
        self.skipped.insert(owner);
        Some(*at)
    }

    /// The pod at this position did not fit.
    pub(super) fn note(&mut self, pod: &Pod, policy: &Policy, at: usize) {
        let (Some(owner), Some(kind)) = (pod.facts().controller, Kind::of(pod, policy)) else {
            return;
        };
        let known = self.by_controller.entry(owner).or_default();
        if known.iter().any(|(known, _)| *known == kind) {
            return;
        }
        if known.len() >= MAX_KINDS {
            self.overflowing.insert(owner);
            return;
        }
        known.push((kind, at));
    }

    /// Controllers of which pods were skipped, and those with too many kinds.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.skipped.len(), self.overflowing.len())
    }
}

impl Kind {
    /// `None` where something else of the pod counts too.
    fn of(pod: &Pod, policy: &Policy) -> Option<Kind> {
        let facts = pod.facts();
        let is_alike = facts.volumes.is_none() && facts.node_name.is_none();
        let (shape, population) = (facts.shape.id, facts.population.id);
        is_alike.then(|| Kind { shape, population, policy: policy.fingerprint() })
    }
}
