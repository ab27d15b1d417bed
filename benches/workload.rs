//! The clusters and pods that all benches share: kube-scheduler's baseline workloads, rebuilt exactly.
//!
//! Counts and formulas are those under which kube-scheduler itself was measured; the test below shows that Berth decides
//! on them as kube-scheduler did.

use std::sync::Arc;

use berth_engine::{Cluster, Delta, Pod, PodKey};
use berth_proto::core_v1::{
    Affinity, Container, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, NodeSpec, NodeStatus, PodSpec, ResourceRequirements, Taint, Toleration,
};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::{Quantity, core_v1};

/// Nodes of the baseline.
pub const N_NODES: usize = 5000;

/// What the incoming pods ask for beyond resources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Basic,
    /// A node selector and required node affinity that one node in five matches.
    NodeAffinity,
    /// Every second pod tolerates the taint that a quarter of the nodes carry; another quarter has a soft taint.
    Taints,
}

/// Node `i` of the baseline, tainted for [`Workload::Taints`].
pub fn node(i: usize, workload: Workload) -> Node {
    let name = format!("node-{i:04}");
    let labels = [
        ("kubernetes.io/hostname", name.clone()),
        ("topology.kubernetes.io/zone", format!("zone-{}", i % 10)),
        ("topology.kubernetes.io/region", "region-0".into()),
        ("tier", ["a", "b", "c", "d", "e"][i % 5].into()),
        ("disk", if i.is_multiple_of(2) { "ssd" } else { "hdd" }.into()),
    ];
    let allocatable =
        [("cpu", "32"), ("memory", "128Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
        ..Taint::default()
    };
    let taints = match (workload, i % 4) {
        (Workload::Taints, 0) => vec![taint("dedicated", "x", "NoSchedule")],
        (Workload::Taints, 1) => vec![taint("noisy", "y", "PreferNoSchedule")],
        _ => Vec::new(),
    };
    Node {
        metadata: Some(ObjectMeta {
            name,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..ObjectMeta::default()
        }),
        spec: Some(NodeSpec { taints, ..NodeSpec::default() }),
        status: Some(NodeStatus {
            allocatable: allocatable
                .into_iter()
                .map(|(name, q)| (name.to_owned(), Quantity::new(q)))
                .collect(),
            ..NodeStatus::default()
        }),
    }
}

/// Existing pod `j`, on node `j` mod `n_nodes`.
pub fn existing(j: usize, n_nodes: usize) -> core_v1::Pod {
    let mut pod = plain(format!("ns-{}", j % 10), format!("existing-{j}"), j);
    set_label(&mut pod, &format!("app-{}", j / 10 % 100));
    if let Some(spec) = &mut pod.spec {
        spec.node_name = format!("node-{:04}", j % n_nodes);
    }
    pod
}

/// Incoming pod `k`.
pub fn incoming(k: usize, workload: Workload) -> core_v1::Pod {
    let mut pod = plain(format!("ns-{}", k % 10), format!("incoming-{k}"), k);
    set_label(&mut pod, &format!("app-{}", k % 100));
    let Some(spec) = &mut pod.spec else {
        return pod;
    };
    match workload {
        Workload::Basic => {}
        Workload::NodeAffinity => {
            spec.node_selector.insert("disk".into(), "ssd".into());
            spec.affinity =
                Some(Affinity { node_affinity: Some(tier_a_or_b()), ..Affinity::default() });
        }
        Workload::Taints => {
            let exists = |key: &str| Toleration {
                key: key.into(),
                operator: "Exists".into(),
                effect: "NoExecute".into(),
                ..Toleration::default()
            };
            spec.tolerations = vec![
                exists("node.kubernetes.io/not-ready"),
                exists("node.kubernetes.io/unreachable"),
            ];
            if k.is_multiple_of(2) {
                spec.tolerations.push(Toleration {
                    key: "dedicated".into(),
                    operator: "Equal".into(),
                    value: "x".into(),
                    effect: "NoSchedule".into(),
                    ..Toleration::default()
                });
            }
        }
    }
    pod
}

/// A cluster of `n_nodes` with `pods_per_node` existing pods each.
pub fn cluster(workload: Workload, n_nodes: usize, pods_per_node: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let nodes =
        (0..n_nodes).filter_map(|i| cluster.compile_node(&node(i, workload)).ok()).collect();
    let pods = (0..n_nodes * pods_per_node)
        .filter_map(|j| cluster.compile_pod(&existing(j, n_nodes)).ok())
        .collect();
    let applied = cluster.replace(nodes, pods);
    assert!(applied.rejected.is_empty(), "the baseline's objects are valid");
    assert_eq!(cluster.snapshot().n_pods(), n_nodes * pods_per_node);
    Arc::new(cluster)
}

/// A pod of a shape that no other number gives.
pub fn distinct_shape(cluster: &Cluster, k: usize, workload: Workload) -> Pod {
    let mut pod = incoming(k, workload);
    if let Some(resources) =
        pod.spec.as_mut().and_then(|spec| spec.containers[0].resources.as_mut())
    {
        resources.requests.insert("memory".into(), Quantity::new(format!("{}", (256 << 20) + k)));
    }
    match cluster.compile_pod(&pod) {
        Ok(pod) => pod,
        Err(error) => unreachable!("the baseline's pods are valid: {error}"),
    }
}

/// A running pod that comes and goes on some node: what one changed row looks like.
pub fn churn(cluster: &Cluster, k: usize, n_nodes: usize) -> (Delta, Delta) {
    let mut pod = existing(k.wrapping_mul(7919) % n_nodes, n_nodes);
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("churn-{k}");
        metadata.uid = metadata.name.clone();
    }
    match cluster.compile_pod(&pod) {
        Ok(pod) => {
            let key = PodKey::new(&pod.key().namespace, &pod.key().name);
            (Delta::UpsertPod(pod), Delta::DeletePod { key, uid: None })
        }
        Err(error) => unreachable!("the baseline's pods are valid: {error}"),
    }
}

fn plain(namespace: String, name: String, i: usize) -> core_v1::Pod {
    let requests =
        [("cpu", ["100m", "200m", "300m"][i % 3]), ("memory", ["256Mi", "512Mi"][i % 2])];
    let container = Container {
        name: "main".into(),
        resources: Some(ResourceRequirements {
            requests: requests
                .into_iter()
                .map(|(name, q)| (name.to_owned(), Quantity::new(q)))
                .collect(),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    core_v1::Pod {
        metadata: Some(ObjectMeta { uid: name.clone(), namespace, name, ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        status: None,
    }
}

fn set_label(pod: &mut core_v1::Pod, app: &str) {
    if let Some(metadata) = &mut pod.metadata {
        metadata.labels.insert("app".into(), app.into());
    }
}

fn tier_a_or_b() -> NodeAffinity {
    let requirement = NodeSelectorRequirement {
        key: "tier".into(),
        operator: "In".into(),
        values: vec!["a".into(), "b".into()],
    };
    let term =
        NodeSelectorTerm { match_expressions: vec![requirement], ..NodeSelectorTerm::default() };
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::{Outcome, PlaceRequest, Policy, TieBreak};

    /// kube-scheduler's own decisions on the first pods of each workload, where the shared figures are at hand.
    #[test]
    fn decides_as_kube_scheduler_did() {
        let shared = std::env::var_os("BERTH_SHARED").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
            std::path::PathBuf::from,
        );
        let Ok(expected) = std::fs::read_to_string(shared.join("spec/peer-expected.csv")) else {
            println!("skipped: {}/spec/peer-expected.csv is not here", shared.display());
            return;
        };
        for (letter, workload) in
            [("a", Workload::Basic), ("b", Workload::NodeAffinity), ("c", Workload::Taints)]
        {
            for per_node in [10, 30] {
                check(&expected, letter, workload, per_node);
            }
        }
    }

    fn check(expected: &str, letter: &str, workload: Workload, per_node: usize) {
        let cluster = cluster(workload, N_NODES, per_node);
        let policy = Policy::default();
        let prefix = format!("{letter},{per_node},");
        let mut n_rows = 0;
        for row in expected.lines().filter(|line| line.starts_with(&prefix)) {
            let cells: Vec<&str> = row.split(',').collect();
            let k: usize = cells[2].parse().unwrap();
            let pod = cluster.compile_pod(&incoming(k, workload)).unwrap();
            let request =
                PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Lexicographic };
            let Outcome::Placed(placement) = cluster.assume(&request).unwrap().outcome else {
                panic!("{row}: not placed");
            };
            let total = placement.total.unwrap().to_string();
            let got = [
                &placement.n_feasible.to_string(),
                &total,
                &placement.n_best.to_string(),
                &*placement.node,
            ];
            assert_eq!(got, cells[3..7], "{row}");
            n_rows += 1;
        }
        assert_eq!(n_rows, 60);
    }
}
