//! The clusters and pods of kube-scheduler's baseline, with the counts and formulas under which it was measured.
//!
//! The tests of [`crate::expected`] compare Berth's decisions on them with kube-scheduler's. The workload `crowd` is
//! not part of the baseline, whose nodes are too similar for preemption.

mod node;
mod pod;
mod demand;
mod object;
mod preemption;
mod crowd;

use std::sync::Arc;

use berth_engine::{Cluster, ClusterState, Node, Object, Pod};

pub use crowd::{N_CROWD_KINDS, crowd_preemptor, crowded_cluster};
pub use node::node;
pub(crate) use node::node_name;
pub use object::objects;
pub use pod::{existing, incoming};
pub(crate) use preemption::start_time;
pub use preemption::{
    PreemptionWorkload, full_cluster, low_priority, preemptor, preemptor_of_new_shape,
};

/// Number of nodes of the baseline.
pub const N_NODES: usize = 5000;

/// One workload of the baseline, by the features of its nodes, existing pods and incoming pods besides resources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Resources only.
    Basic,
    /// Incoming: a node selector and required node affinity that one node in five matches.
    NodeAffinity,
    /// A quarter of the nodes has a hard taint, which every second incoming pod tolerates; another quarter a soft one.
    Taints,
    /// Incoming: hard spread over zones with a maximum skew of 1.
    SpreadHardZone,
    /// Incoming: soft spread over zones and nodes.
    SpreadSoft,
    /// Incoming: pods of a Service, so that the built-in default constraints apply.
    SpreadSystemDefaults,
    /// Incoming pods, and existing pods on a fifth of the nodes: required anti-affinity, no two on one node.
    AntiAffinityHost1000,
    /// Required anti-affinity, with existing pods on four fifths of the nodes.
    AntiAffinityHost4000,
    /// Incoming: required affinity to an application, which runs in one zone.
    AffinityZone,
    /// Incoming pods and every tenth existing pod: preferred affinity to the application's zone, and preferred
    /// anti-affinity to each other by node.
    PreferredAffinity,
    /// All features in one cluster.
    Mixed,
}

impl Workload {
    /// Every workload, in the baseline's order.
    pub const ALL: [Workload; 11] = [
        Workload::Basic,
        Workload::NodeAffinity,
        Workload::Taints,
        Workload::SpreadHardZone,
        Workload::SpreadSoft,
        Workload::SpreadSystemDefaults,
        Workload::AntiAffinityHost1000,
        Workload::AntiAffinityHost4000,
        Workload::AffinityZone,
        Workload::PreferredAffinity,
        Workload::Mixed,
    ];

    /// The workload's name in the baseline.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Basic => "a-basic",
            Workload::NodeAffinity => "b-nodeaffinity",
            Workload::Taints => "c-taints",
            Workload::SpreadHardZone => "d-spread-hard-zone",
            Workload::SpreadSoft => "e1-spread-soft",
            Workload::SpreadSystemDefaults => "e2-spread-system-defaults",
            Workload::AntiAffinityHost1000 => "f1-antiaffinity-host-1000",
            Workload::AntiAffinityHost4000 => "f2-antiaffinity-host-4000",
            Workload::AffinityZone => "g-affinity-zone",
            Workload::PreferredAffinity => "h-preferred-affinity",
            Workload::Mixed => "j-mixed",
        }
    }

    /// The workload's name in the recorded decisions: the part of its name before the first dash.
    pub fn letter(self) -> &'static str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// Number of workloads from which the incoming pods are taken alternately.
    pub fn n_kinds(self) -> usize {
        if self == Workload::Mixed { 10 } else { 1 }
    }
}

/// A cluster of `n_nodes` with `pods_per_node` existing pods each.
pub fn cluster(workload: Workload, n_nodes: usize, pods_per_node: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let n_pods = n_nodes * pods_per_node;
    let state = ClusterState {
        nodes: (0..n_nodes).map(|i| compiled_node(&cluster, i, workload)).collect(),
        objects: objects(&cluster, workload),
        pods: (0..n_pods)
            .map(|j| compiled_pod(&cluster, &existing(j, n_nodes, workload)))
            .collect(),
    };
    let applied = cluster.replace(state);
    assert!(applied.rejected.is_empty(), "the baseline's objects are valid");
    assert_eq!(cluster.snapshot().n_pods(), n_pods);
    Arc::new(cluster)
}

/// Incoming pod `k` under another name and with a unique shape: its memory differs by `k` bytes.
pub fn distinct_shape(cluster: &Cluster, k: usize, workload: Workload) -> Pod {
    let mut pod = incoming(k, workload);
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("distinct-{k}");
        metadata.uid = metadata.name.clone();
    }
    pod::request(&mut pod, "memory", format!("{}", (256 << 20) + k));
    compiled_pod(cluster, &pod)
}

/// Compiles a pod of the baseline, which is always valid.
pub(crate) fn compiled_pod(cluster: &Cluster, pod: &berth_proto::core_v1::Pod) -> Pod {
    match cluster.compile_pod(pod) {
        Ok(pod) => pod,
        Err(error) => unreachable!("the baseline's pods are valid: {error}"),
    }
}

fn compiled_node(cluster: &Cluster, i: usize, workload: Workload) -> Node {
    match cluster.compile_node(&node(i, workload)) {
        Ok(node) => node,
        Err(error) => unreachable!("the baseline's nodes are valid: {error}"),
    }
}

/// Compiles an object of the baseline, which is always valid.
pub(crate) fn compiled_object<'a>(
    cluster: &Cluster,
    object: impl Into<berth_engine::WireObject<'a>>,
) -> Object {
    match cluster.compile_object(object) {
        Ok(object) => object,
        Err(error) => unreachable!("the baseline's objects are valid: {error}"),
    }
}
