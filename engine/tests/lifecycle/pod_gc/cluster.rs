//! Random clusters for the garbage collector, and accessors of their objects.

use std::collections::BTreeSet;

use berth_proto::berth_v1::{NodeAbsence, PodGcRequest};
use berth_proto::core_v1::{
    Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus, Taint,
};
use berth_proto::meta_v1::ObjectMeta;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::at;

pub(super) const NOW: i64 = 1_000;
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Generates a pod with one of a few names, ages and nodes, so that many are equal or missing.
fn pod() -> impl Strategy<Value = Pod> {
    let phases = vec!["", "Pending", "Running", "Succeeded", "Failed", "Failed", "Unknown"];
    let reasons = vec!["", "Evicted", "Evicted", "DeadlineExceeded"];
    let nodes = vec!["", "n0", "n1", "n2", "n3", "n4", "n5"];
    (
        (0..30_u8, select(vec!["default", "a", "b"]), proptest::option::weighted(0.9, 0..6_i64)),
        (select(phases), select(reasons), select(nodes), any::<bool>()),
    )
        .prop_map(|((name, namespace, created), (phase, reason, node, is_marked))| Pod {
            metadata: Some(ObjectMeta {
                name: format!("p{name}"),
                namespace: namespace.to_owned(),
                uid: format!("{namespace}/p{name}"),
                creation_timestamp: created.map(at),
                deletion_timestamp: is_marked.then(|| at(900)),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec { node_name: node.to_owned(), ..PodSpec::default() }),
            status: Some(PodStatus {
                phase: phase.to_owned(),
                reason: reason.to_owned(),
                ..PodStatus::default()
            }),
        })
}

/// Generates pods of different names.
pub(super) fn pods() -> impl Strategy<Value = Vec<Pod>> {
    vec(pod(), 0..60).prop_map(|mut pods| {
        let mut seen = BTreeSet::new();
        pods.retain(|pod| seen.insert(meta(pod).uid.clone()));
        pods
    })
}

/// Generates the nodes `n0` to `n5`, some without an object, some listed as absent, correctly or not.
pub(super) fn cluster() -> impl Strategy<Value = PodGcRequest> {
    let ready = select(vec!["True", "False", "Unknown", ""]);
    let taint = select(vec!["", OUT_OF_SERVICE, "other"]);
    let absence = proptest::option::of((
        proptest::option::weighted(0.9, 955..965_i64),
        proptest::bool::weighted(0.8),
    ));
    let node = (any::<bool>(), ready, taint, absence);
    (pods(), vec(node, 6), proptest::option::of(-2..12_i64)).prop_map(
        |(pods, nodes, terminated_pod_threshold)| {
            let mut request = PodGcRequest {
                pods,
                terminated_pod_threshold,
                now: Some(at(NOW)),
                ..PodGcRequest::default()
            };
            for (index, (exists, ready, taint, absence)) in nodes.into_iter().enumerate() {
                let name = format!("n{index}");
                if exists {
                    request.nodes.push(node_object(&name, ready, taint));
                }
                if let Some((since, confirmed_live)) = absence {
                    let absence = NodeAbsence { since: since.map(at), confirmed_live };
                    request.absent_nodes.insert(name, absence);
                }
            }
            request
        },
    )
}

fn node_object(name: &str, ready: &str, taint: &str) -> Node {
    let condition = NodeCondition {
        r#type: "Ready".to_owned(),
        status: ready.to_owned(),
        ..NodeCondition::default()
    };
    let taint = Taint { key: taint.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    Node {
        metadata: Some(ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() }),
        spec: Some(NodeSpec {
            taints: if taint.key.is_empty() { Vec::new() } else { vec![taint] },
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: if ready.is_empty() { Vec::new() } else { vec![condition] },
            ..NodeStatus::default()
        }),
    }
}

pub(super) fn meta(pod: &Pod) -> &ObjectMeta {
    pod.metadata.as_ref().unwrap()
}

pub(super) fn phase(pod: &Pod) -> &str {
    &pod.status.as_ref().unwrap().phase
}

pub(super) fn node_name(pod: &Pod) -> &str {
    &pod.spec.as_ref().unwrap().node_name
}

pub(super) fn is_terminal(pod: &Pod) -> bool {
    phase(pod) == "Succeeded" || phase(pod) == "Failed"
}

pub(super) fn is_marked(pod: &Pod) -> bool {
    meta(pod).deletion_timestamp.is_some()
}

pub(super) fn node_of<'a>(request: &'a PodGcRequest, pod: &Pod) -> Option<&'a Node> {
    request.nodes.iter().find(|node| node.metadata.as_ref().unwrap().name == node_name(pod))
}

/// Returns a pod with these fields.
pub(super) fn pod_of(name: &str, phase: &str, node: &str, created: u64) -> Pod {
    Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            creation_timestamp: i64::try_from(created).ok().map(at),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec { node_name: node.to_owned(), ..PodSpec::default() }),
        status: Some(PodStatus { phase: phase.to_owned(), ..PodStatus::default() }),
    }
}

/// Returns a node without any problem.
pub(super) fn ready_node(name: &str) -> Node {
    node_object(name, "True", "")
}
