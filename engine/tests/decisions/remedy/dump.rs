//! The pending pods of a recorded cluster: each offered remedy has the stated effect there.

use std::collections::BTreeSet;

use berth_engine::Policy;
use berth_proto::{apps_v1, core_v1, storage_v1};
use berth_testing::recorded;
use serde_json::Value;

use super::world::{World, check_remedies, explain};
use crate::naive::objects::AnyObject;

/// The recorded cluster and its pending pods; `None` where the recordings are missing.
pub(crate) fn recorded_world() -> Option<(World, Vec<core_v1::Pod>)> {
    let dump = recorded::read("data/cluster-dump/mid.json.gz")?;
    let list: Value = serde_json::from_str(&dump).expect("a dump is JSON");
    let (mut world, mut pending) = (World::default(), Vec::new());
    for item in list["items"].as_array().expect("a list") {
        read(item, &mut world, &mut pending);
    }
    Some((world, pending))
}

#[test]
fn remedies_of_a_recorded_cluster() {
    let Some((world, pending)) = recorded_world() else { return };
    let (engine, policy) = (world.engine(), Policy::default());
    let (mut n_remedies, mut seen) = (0, BTreeSet::new());
    for pod in pending {
        let Ok(explanation) = explain(&engine, &pod, &policy) else {
            continue;
        };
        // Replicas get the same remedies.
        let changes: Vec<String> = explanation.remedies.iter().map(|r| r.change.clone()).collect();
        if seen.insert(changes) {
            check_remedies(&world, &pod, &policy, &explanation);
            n_remedies += explanation.remedies.len();
        }
    }
    assert!(n_remedies > 40, "{n_remedies}");
}

/// Reads a wire object from the JSON value of the expression.
macro_rules! wire {
    ($item:expr => $type:ty) => {{
        let object: $type = serde_json::from_value($item.clone())
            .unwrap_or_else(|error| panic!("{error}: {}", $item));
        object
    }};
}

fn read(item: &Value, world: &mut World, pending: &mut Vec<core_v1::Pod>) {
    macro_rules! object {
        ($type:ty) => {
            world.objects.push(AnyObject::from(wire!(item => $type)))
        };
    }
    match item["kind"].as_str().expect("a kind") {
        "Node" => world.nodes.push(wire!(item => core_v1::Node)),
        "Pod" => {
            let pod = wire!(item => core_v1::Pod);
            let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
            let has_node = pod.spec.as_ref().is_some_and(|spec| !spec.node_name.is_empty());
            match (phase, has_node) {
                ("Succeeded" | "Failed", _) => {}
                (_, true) => world.pods.push(pod),
                (_, false) => pending.push(pod),
            }
        }
        "Namespace" => object!(core_v1::Namespace),
        "Service" => object!(core_v1::Service),
        "ReplicaSet" => object!(apps_v1::ReplicaSet),
        "StatefulSet" => object!(apps_v1::StatefulSet),
        "PersistentVolume" => object!(core_v1::PersistentVolume),
        "PersistentVolumeClaim" => object!(core_v1::PersistentVolumeClaim),
        "StorageClass" => object!(storage_v1::StorageClass),
        "CSINode" => object!(storage_v1::CsiNode),
        "PodDisruptionBudget" | "PriorityClass" => {}
        other => panic!("`{other}` is no kind of the dump"),
    }
}
