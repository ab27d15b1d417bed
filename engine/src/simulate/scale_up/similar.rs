//! Similar: whether two node groups' nodes are equivalent, so that a scale-up may be balanced over both.
//!
//! Groups are compared as cluster-autoscaler does: equal CPU and extended resources, memory that differs by no more
//! than between machines of one kind, nearly equal amounts left for pods after the template's own pods, and equal
//! labels except those for a machine's location and name. Taints are not compared; whether both take the same pods is
//! checked elsewhere.

use super::request::NodeGroup;
use crate::model::intern::{Interner, Symbol};
use crate::model::resources::Resources;

/// Allowed difference in memory capacity, as a fraction of the larger value.
const MAX_CAPACITY_MEMORY_DIFFERENCE: f64 = 0.015;
/// Allowed difference of each allocatable or free resource, as a fraction of the larger value.
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

/// The group that other groups are compared with.
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

    /// Whether a group is similar to this one.
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

/// The template's allocatable resources less the requests of its own pods.
fn free(group: &NodeGroup) -> Resources {
    let mut free = group.template.facts().allocatable.clone();
    for pod in &group.template_pods {
        let requested = &pod.footprint().requested;
        free.milli_cpu = free.milli_cpu.saturating_sub(requested.milli_cpu);
        free.memory = free.memory.saturating_sub(requested.memory);
        free.ephemeral_storage = free.ephemeral_storage.saturating_sub(requested.ephemeral_storage);
    }
    free
}
