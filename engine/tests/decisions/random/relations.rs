//! Random relations of a pod to others: namespace, labels, owner, spread constraints, pod affinity.

use std::collections::BTreeMap;

use berth_proto::core_v1::{self, PodAffinity, PodAntiAffinity, TopologySpreadConstraint};
use berth_proto::meta_v1;
use proptest::prelude::*;

use super::labels::{namespace, pod_labels};
use super::object::owners;
use super::pod_affinity::pod_affinity;
use super::spread::constraints;

#[derive(Clone, Debug)]
pub(crate) struct Relations {
    namespace: String,
    labels: BTreeMap<String, String>,
    owners: Vec<meta_v1::OwnerReference>,
    constraints: Vec<TopologySpreadConstraint>,
    near: Option<PodAffinity>,
    far: Option<PodAntiAffinity>,
}

pub(crate) fn relations() -> BoxedStrategy<Relations> {
    let affinity = prop_oneof![1 => Just((None, None)), 1 => pod_affinity()];
    (namespace(), pod_labels(), owners(), constraints(), affinity)
        .prop_map(|(namespace, labels, owners, constraints, (near, far))| Relations {
            namespace,
            labels,
            owners,
            constraints,
            near,
            far,
        })
        .boxed()
}

impl Relations {
    pub(crate) fn applied_to(self, mut pod: core_v1::Pod) -> core_v1::Pod {
        let metadata = pod.metadata.get_or_insert_default();
        metadata.namespace = self.namespace;
        metadata.labels = self.labels;
        metadata.owner_references = self.owners;
        let spec = pod.spec.get_or_insert_default();
        spec.topology_spread_constraints = self.constraints;
        if self.near.is_some() || self.far.is_some() {
            let affinity = spec.affinity.get_or_insert_default();
            affinity.pod_affinity = self.near;
            affinity.pod_anti_affinity = self.far;
        }
        pod
    }
}
