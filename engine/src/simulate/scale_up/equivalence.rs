//! Equivalence: classes of pods, of which one pod is tested for all, and the groups of similar pods in which
//! cluster-autoscaler packs. Rule: S-CAS-5.

use rustc_hash::FxHashMap;

use crate::model::Pod;
use crate::model::controller::{ControllerId, ControllerKey};
use crate::model::population::PopulationId;
use crate::model::shape::ShapeId;

/// Classes of pods that are the same to every filter. A pod with claims, with a node name or with a status that changes
/// its requests is a class by itself.
#[derive(Debug, Default)]
pub(super) struct Classes {
    of_pods: Vec<usize>,
    /// The first pod of each class.
    samples: Vec<usize>,
}

impl Classes {
    pub(super) fn of(pods: &[Pod]) -> Classes {
        let mut known: FxHashMap<(ShapeId, PopulationId, Option<ControllerKey>), usize> =
            FxHashMap::default();
        let mut classes = Classes::default();
        for (index, pod) in pods.iter().enumerate() {
            let facts = pod.facts();
            let next = classes.samples.len();
            let is_alone = facts.volumes.is_some()
                || facts.device_claims.is_some()
                || facts.resized.is_some()
                || facts.node_name.is_some();
            let class = if is_alone {
                next
            } else {
                *known.entry((facts.shape.id, facts.population.id, facts.owner)).or_insert(next)
            };
            if class == next {
                classes.samples.push(index);
            }
            classes.of_pods.push(class);
        }
        classes
    }

    /// The class of a pod.
    pub(super) fn of_pod(&self, pod: usize) -> usize {
        self.of_pods[pod]
    }

    /// One pod of each class.
    pub(super) fn samples(&self) -> &[usize] {
        &self.samples
    }

    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }
}

/// Pods that are packed one after another.
pub(super) type Group = Vec<usize>;

/// The largest number of groups of one controller; further pods that differ are groups by themselves.
const MAX_OF_CONTROLLER: usize = 10;

/// Groups of pods of one controller with equal labels and equal specs, as far as any rule reads these, in the order of
/// their first pods. Pods without a controller and those of DaemonSets are groups by themselves.
pub(super) fn groups(pods: &[Pod], of: &[usize]) -> Vec<Group> {
    let mut of_controllers: FxHashMap<ControllerId, Vec<usize>> = FxHashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    for &index in of {
        let pod = pods[index].facts();
        let controller = pod.controller.filter(|_| !pod.drainability.is_daemon);
        if let Some(controller) = controller {
            let known = of_controllers.entry(controller).or_default();
            let like = known.iter().find(|group| is_like(&pods[groups[**group][0]], &pods[index]));
            if let Some(group) = like {
                groups[*group].push(index);
                continue;
            }
            if known.len() < MAX_OF_CONTROLLER {
                known.push(groups.len());
            }
        }
        groups.push(vec![index]);
    }
    groups
}

fn is_like(a: &Pod, b: &Pod) -> bool {
    let (a, b) = (a.facts(), b.facts());
    a.shape.id == b.shape.id
        && a.population.id == b.population.id
        && a.volumes == b.volumes
        && a.device_claims == b.device_claims
}

#[cfg(test)]
mod tests;
