//! A server whose cluster the test sets.

use berth_engine::{ClusterState, TieBreak};
use berth_proto::core_v1;
use berth_server::extender::ExtenderOptions;
use berth_server::runtime::{Server, ServerOptions};
use serde_json::{Value, json};

/// Options with all verbs, `bind` included.
pub(crate) fn options() -> ServerOptions {
    let extender = ExtenderOptions { bind: true, ..ExtenderOptions::default() };
    ServerOptions { tie_break: TieBreak::Lexicographic, extender, ..ServerOptions::default() }
}

pub(crate) async fn start() -> Server {
    Server::start(options()).await.unwrap()
}

/// A server with these nodes and pods.
pub(crate) async fn with(nodes: &[Value], pods: &[Value]) -> Server {
    let server = start().await;
    replace_cluster(&server, nodes, pods);
    server
}

/// Replaces the cluster of the server.
pub(crate) fn replace_cluster(server: &Server, nodes: &[Value], pods: &[Value]) {
    let cluster = server.cluster();
    let node = |value: &Value| {
        let node: core_v1::Node = serde_json::from_value(value.clone()).unwrap();
        cluster.compile_node(&node).unwrap()
    };
    let pod = |value: &Value| {
        let pod: core_v1::Pod = serde_json::from_value(value.clone()).unwrap();
        cluster.compile_pod(&pod).unwrap()
    };
    let (nodes, pods) = (nodes.iter().map(node).collect(), pods.iter().map(pod).collect());
    let applied = cluster.replace(ClusterState { nodes, pods, ..ClusterState::default() });
    assert_eq!(applied.rejected, []);
    server.freshness().note_applied();
}

/// A node with this much CPU.
pub(crate) fn node(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    })
}

/// A pending pod.
pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// A pod of a priority on a node; an empty node name leaves it waiting.
pub(crate) fn running(name: &str, cpu: &str, priority: i32, node: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["nodeName"] = node.into();
    pod
}
