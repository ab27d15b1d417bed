//! Objects for tests.

use serde_json::{Value, json};

use crate::client::World;

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "z1"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    })
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i:v1", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

pub(crate) fn running(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

/// A world with `n` pods `p000` … in namespace `lab`.
pub(crate) fn with_pods(n: usize) -> World {
    let world = World::start();
    for i in 0..n {
        world.store().create(pod(&format!("p{i:03}"))).unwrap();
    }
    world
}

pub(crate) const PODS: &str = "/api/v1/namespaces/lab/pods";

pub(crate) fn bind(world: &World, pod: &str, node: &str) -> u16 {
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": node}});
    world.post(&format!("{PODS}/{pod}/binding"), &body.to_string()).status
}

/// The body of a Binding.
pub(crate) fn bind_body(pod: &str, node: &str) -> String {
    json!({"metadata": {"name": pod}, "target": {"name": node}}).to_string()
}
