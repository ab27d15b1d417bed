//! Similar pods: pods of one controller with equal labels and an equal spec. Rule: S-CAS-5.

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

/// The number of kinds remembered for each controller; most controllers have one.
const MAX_KINDS: usize = 10;

/// Properties that distinguish the pods of a controller.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Kind {
    shape: ShapeId,
    population: PopulationId,
    policy: u64,
}

impl Similar {
    /// The position of a similar pod that did not fit.
    pub(super) fn find(&mut self, pod: &Pod, policy: &Policy) -> Option<usize> {
        let (owner, kind) = (pod.facts().controller?, Kind::of(pod, policy)?);
        let known = self.by_controller.get(&owner)?;
        let (_, at) = known.iter().find(|(known, _)| *known == kind)?;
        self.skipped.insert(owner);
        Some(*at)
    }

    /// Remembers that the pod at this position did not fit.
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

    /// Number of controllers of which pods were skipped, and of those with too many kinds.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.skipped.len(), self.overflowing.len())
    }
}

impl Kind {
    /// The kind of a pod; `None` where other properties of the pod matter too.
    fn of(pod: &Pod, policy: &Policy) -> Option<Kind> {
        let facts = pod.facts();
        let is_alike =
            facts.volumes.is_none() && facts.device_claims.is_none() && facts.node_name.is_none();
        let (shape, population) = (facts.shape.id, facts.population.id);
        is_alike.then(|| Kind { shape, population, policy: policy.fingerprint() })
    }
}
