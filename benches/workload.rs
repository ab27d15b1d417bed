//! Clusters of kube-scheduler's baseline ([`berth_synthetic::baseline`]), in the engine's form.
//!
//! The tests of [`crate::expected`] compare Berth's decisions on them with kube-scheduler's. The workload `crowd` is
//! not part of the baseline, whose nodes are too similar for preemption.

mod preemption;
mod crowd;
mod device;

use std::sync::Arc;

use berth_engine::{Cluster, ClusterState, Node, Object, Pod};

use berth_synthetic::baseline;
pub use berth_synthetic::baseline::node::node;
pub(crate) use berth_synthetic::baseline::node::node_name;
pub use berth_synthetic::baseline::pod::{existing, incoming};
pub use berth_synthetic::baseline::{N_NODES, Workload};

pub use crowd::{N_CROWD_KINDS, crowd_preemptor, crowded_cluster};
pub use device::{DeviceWorkload, asking, asking_anew, compiled_asking, device_cluster};
pub(crate) use preemption::start_time;
pub use preemption::{
    PreemptionWorkload, full_cluster, low_priority, preemptor, preemptor_of_new_shape,
};

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

/// The baseline's objects other than nodes and pods.
pub fn objects(cluster: &Cluster, workload: Workload) -> Vec<Object> {
    let (namespaces, service) =
        (baseline::object::namespaces(), baseline::object::service(workload));
    let namespaces = namespaces.iter().map(|namespace| compiled_object(cluster, namespace));
    namespaces.chain(service.iter().map(|service| compiled_object(cluster, service))).collect()
}

/// Incoming pod `k` under another name and with a unique shape: its memory differs by `k` bytes.
pub fn distinct_shape(cluster: &Cluster, k: usize, workload: Workload) -> Pod {
    let mut pod = incoming(k, workload);
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("distinct-{k}");
        metadata.uid = metadata.name.clone();
    }
    baseline::pod::request(&mut pod, "memory", format!("{}", (256 << 20) + k));
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
