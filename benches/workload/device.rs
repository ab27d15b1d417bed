//! The baseline with devices ([`berth_synthetic::baseline::device`]), in the engine's form.

use std::sync::Arc;

use berth_engine::{Cluster, ClusterState, Object, Pod};
use berth_proto::core_v1;
use berth_proto::resource_v1::ResourceClaim;
pub use berth_synthetic::baseline::device::{DeviceWorkload, asking, asking_anew};
use berth_synthetic::baseline::device::{N_HELD, class, holding, slice};

use super::{Workload, compiled_node, compiled_object, compiled_pod, objects};

/// A cluster of `n_nodes` with eight devices and four claims each.
pub fn device_cluster(workload: DeviceWorkload, n_nodes: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let (pods, objects) = state(&cluster, workload, n_nodes);
    let nodes = (0..n_nodes).map(|i| compiled_node(&cluster, i, Workload::Basic)).collect();
    let applied = cluster.replace(ClusterState { nodes, objects, pods });
    assert!(applied.rejected.is_empty(), "the baseline's objects are valid");
    Arc::new(cluster)
}

fn state(cluster: &Cluster, workload: DeviceWorkload, n_nodes: usize) -> (Vec<Pod>, Vec<Object>) {
    let mut all = objects(cluster, Workload::Basic);
    all.push(compiled_object(cluster, &class()));
    all.extend((0..n_nodes).map(|i| compiled_object(cluster, &slice(i))));
    let held = (0..N_HELD * n_nodes).map(|j| holding(j, n_nodes, workload));
    let pods = held.map(|(pod, claim)| {
        all.push(compiled_object(cluster, &claim));
        compiled_pod(cluster, &pod)
    });
    let pods = pods.collect();
    (pods, all)
}

/// An incoming pod with its claim, read.
pub fn compiled_asking(
    cluster: &Cluster,
    (pod, claim): &(core_v1::Pod, ResourceClaim),
) -> (Pod, Object) {
    (compiled_pod(cluster, pod), compiled_object(cluster, claim))
}
