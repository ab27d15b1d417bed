//! The clusters and pods of kube-scheduler's baseline: counts and formulas are those under which it was measured.
//!
//! The tests of [`crate::expected`] show that Berth decides on them as kube-scheduler did. One more, `crowd`, is of our own: for
//! preemption the baseline's nodes are too much alike.

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

/// Nodes of the baseline.
pub const N_NODES: usize = 5000;

/// One workload of the baseline: what its nodes, existing pods and incoming pods have beyond resources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Basic,
    /// Incoming: a node selector and required node affinity that one node in five matches.
    NodeAffinity,
    /// A quarter of the nodes has a hard taint, which every second incoming pod tolerates; another quarter a soft one.
    Taints,
    /// Incoming: at most one pod more in a zone than in another.
    SpreadHardZone,
    /// Incoming: preferably even over zones and over nodes.
    SpreadSoft,
    /// Incoming: a Service selects them, so that the built-in default constraints apply.
    SpreadSystemDefaults,
    /// Incoming, and existing ones on a fifth of the nodes: no two on one node.
    AntiAffinityHost1000,
    /// The same with existing ones on four fifths of the nodes.
    AntiAffinityHost4000,
    /// Incoming: only in a zone that has a pod of the application, which one zone does.
    AffinityZone,
    /// Incoming, and every tenth existing pod: preferably in the application's zone, and preferably not on a node with their
    /// like.
    PreferredAffinity,
    /// All of them in one cluster.
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

    /// The baseline's name for it.
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

    /// What the recorded decisions call it: the part of its name before the first dash.
    pub fn letter(self) -> &'static str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// How many different workloads its incoming pods are taken from, in turn.
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

/// Incoming pod `k` under another name, in a shape that no other number gives: its memory differs by `k` bytes.
pub fn distinct_shape(cluster: &Cluster, k: usize, workload: Workload) -> Pod {
    let mut pod = incoming(k, workload);
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("distinct-{k}");
        metadata.uid = metadata.name.clone();
    }
    pod::request(&mut pod, "memory", format!("{}", (256 << 20) + k));
    compiled_pod(cluster, &pod)
}

/// A pod of the baseline, which is always valid.
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

/// An object of the baseline, which is always valid.
pub(crate) fn compiled_object<'a>(
    cluster: &Cluster,
    object: impl Into<berth_engine::WireObject<'a>>,
) -> Object {
    match cluster.compile_object(object) {
        Ok(object) => object,
        Err(error) => unreachable!("the baseline's objects are valid: {error}"),
    }
}
