//! Similar: whether two node groups' nodes are as good as each other, so that a scale-up may be balanced over both.
//!
//! As cluster-autoscaler compares groups: as much CPU and of every extended resource, memory that differs by no more than machines of one
//! kind do, nearly as much left for pods once the template's own pods have theirs, and the same labels but for those that
//! tell a machine's place and name. Taints are not compared; that both take the same pods is asked elsewhere.

use super::request::NodeGroup;
use crate::model::intern::{Interner, Symbol};
use crate::model::resources::Resources;

/// Of the larger value, by how much the memory of two machines may differ.
const MAX_CAPACITY_MEMORY_DIFFERENCE: f64 = 0.015;
/// The same of each resource that is left for pods, or still free.
const MAX_ALLOCATABLE_DIFFERENCE: f64 = 0.05;

/// Labels in which similar groups may differ.
const PLACE_LABELS: [&str; 7] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
];

/// What other groups are held against.
pub(super) struct Similar<'g> {
    group: &'g NodeGroup,
    ignored: &'g [String],
    names: &'g Interner,
}

impl<'g> Similar<'g> {
    pub(super) fn to(
        group: &'g NodeGroup,
        ignored: &'g [String],
        names: &'g Interner,
    ) -> Similar<'g> {
        Similar { group, ignored, names }
    }

    /// Whether a group is like this one.
    pub(super) fn is(&self, other: &NodeGroup) -> bool {
        let (a, b) = (self.group.template.facts(), other.template.facts());
        let most = MAX_ALLOCATABLE_DIFFERENCE;
        a.capacity.milli_cpu == b.capacity.milli_cpu
            && is_near(a.capacity.memory, b.capacity.memory, MAX_CAPACITY_MEMORY_DIFFERENCE)
            && a.allocatable.scalars == b.allocatable.scalars
            && a.allowed_pods == b.allowed_pods
            && are_near(&a.allocatable, &b.allocatable, most)
            && are_near(&free(self.group), &free(other), most)
            && self.labels(self.group) == self.labels(other)
    }

    fn labels(&self, group: &NodeGroup) -> Vec<(Symbol, Symbol)> {
        let is_compared = |key: &str| {
            !PLACE_LABELS.contains(&key) && !self.ignored.iter().any(|ignored| ignored == key)
        };
        let labels = group.template.facts().labels.iter();
        let compared = labels.filter(|(key, _)| is_compared(&self.names.name(*key)));
        compared.copied().collect()
    }
}

fn are_near(a: &Resources, b: &Resources, most: f64) -> bool {
    is_near(a.milli_cpu, b.milli_cpu, most)
        && is_near(a.memory, b.memory, most)
        && is_near(a.ephemeral_storage, b.ephemeral_storage, most)
}

fn is_near(a: i64, b: i64, most: f64) -> bool {
    let (low, high) = (a.min(b) as f64, a.max(b) as f64);
    high - low <= high.abs() * most
}

/// What the template's own pods leave.
fn free(group: &NodeGroup) -> Resources {
    let mut free = group.template.facts().allocatable.clone();
    for pod in &group.template_pods {
        let asked = &pod.footprint().requested;
        free.milli_cpu = free.milli_cpu.saturating_sub(asked.milli_cpu);
        free.memory = free.memory.saturating_sub(asked.memory);
        free.ephemeral_storage = free.ephemeral_storage.saturating_sub(asked.ephemeral_storage);
    }
    free
}
