//! The baseline's nodes.

use berth_proto::Quantity;
use berth_proto::core_v1::{Node, NodeSpec, NodeStatus, Taint};
use berth_proto::meta_v1::ObjectMeta;

use super::kind::Workload;

const ALLOCATABLE: [(&str, &str); 4] =
    [("cpu", "32"), ("memory", "128Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];

/// Node `i`, with taints if the workload has them.
pub fn node(i: usize, workload: Workload) -> Node {
    let name = node_name(i);
    let labels = [
        ("kubernetes.io/hostname", name.clone()),
        ("topology.kubernetes.io/zone", format!("zone-{}", i % 10)),
        ("topology.kubernetes.io/region", "region-0".into()),
        ("tier", ["a", "b", "c", "d", "e"][i % 5].into()),
        ("disk", if i.is_multiple_of(2) { "ssd" } else { "hdd" }.into()),
    ];
    Node {
        metadata: Some(ObjectMeta {
            name,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..ObjectMeta::default()
        }),
        spec: Some(NodeSpec { taints: taints(i, workload), ..NodeSpec::default() }),
        status: Some(NodeStatus {
            allocatable: ALLOCATABLE
                .into_iter()
                .map(|(name, q)| (name.to_owned(), Quantity::new(q)))
                .collect(),
            ..NodeStatus::default()
        }),
    }
}

/// Name of node `i`.
pub fn node_name(i: usize) -> String {
    format!("node-{i:04}")
}

fn taints(i: usize, workload: Workload) -> Vec<Taint> {
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
        ..Taint::default()
    };
    match (workload, i % 4) {
        (Workload::Taints | Workload::Mixed, 0) => vec![taint("dedicated", "x", "NoSchedule")],
        (Workload::Taints | Workload::Mixed, 1) => vec![taint("noisy", "y", "PreferNoSchedule")],
        _ => Vec::new(),
    }
}
