//! Claims that wait for their first consumer get their volumes before its pod is bound.

use serde_json::{Value, json};

use crate::schedule::world::{World, fast_options, pause, text, until};

fn storage_class(world: &World, name: &str, provisioner: &str) {
    world.create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    }));
}

fn claim(world: &World, name: &str, class: &str) {
    world.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }));
}

fn consumer(world: &World, claim: &str) {
    let volumes =
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]});
    world.pod_with("db", "1", volumes, json!({}));
}

fn get_claim(world: &World, name: &str) -> Value {
    world.api.store().get("PersistentVolumeClaim", "default", name).expect("the claim")
}

/// Returns the node that is selected for the provisioner of the claim `data`.
fn selected_node(world: &World) -> String {
    text(&get_claim(world, "data")["metadata"]["annotations"]["volume.kubernetes.io/selected-node"])
}

/// Binds the claim to `volume`, as the volume controller does at the end.
fn complete(world: &World, name: &str, volume: &str) {
    let mut claim = get_claim(world, name);
    claim["spec"]["volumeName"] = json!(volume);
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["status"]["phase"] = json!("Bound");
    world.api.store().replace(claim).expect("the claim");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_gets_the_node_and_the_pod_is_bound_when_it_is_done() {
    let world = World::new().await;
    world.node("n1", 4);
    storage_class(&world, "fast", "csi.example.com");
    claim(&world, "data", "fast");
    consumer(&world, "data");
    let _instance = world.start(fast_options()).await;
    until("the node is selected", || selected_node(&world) == "n1").await;
    pause().await;
    assert_eq!(world.node_of("db"), "", "the volume is not there yet");
    complete(&world, "data", "pvc-1");
    until("the pod is bound", || world.node_of("db") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_there_is_reserved_for_the_claim() {
    let world = World::new().await;
    world.node("n1", 4);
    storage_class(&world, "local", "kubernetes.io/no-provisioner");
    world.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"},
            "volumeMode": "Filesystem", "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]}},
        },
        "status": {"phase": "Available"},
    }));
    claim(&world, "data", "local");
    consumer(&world, "data");
    let _instance = world.start(fast_options()).await;
    let volume =
        |world: &World| world.api.store().get("PersistentVolume", "", "disk").expect("the volume");
    until("it is reserved", || volume(&world)["spec"]["claimRef"]["name"] == "data").await;
    let reserved = volume(&world);
    assert_eq!(reserved["spec"]["claimRef"]["uid"], get_claim(&world, "data")["metadata"]["uid"]);
    assert_eq!(reserved["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    assert_eq!(world.node_of("db"), "");
    complete(&world, "data", "disk");
    until("the pod is bound", || world.node_of("db") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_that_gives_the_node_up_has_the_pod_placed_anew() {
    let world = World::new().await;
    world.node("n1", 4);
    storage_class(&world, "fast", "csi.example.com");
    claim(&world, "data", "fast");
    consumer(&world, "data");
    let _instance = world.start(fast_options()).await;
    until("the node is selected", || selected_node(&world) == "n1").await;
    let mut given_up = get_claim(&world, "data");
    given_up["metadata"]["annotations"] = json!({});
    world.api.store().replace(given_up).expect("the claim");
    until("it says why", || world.condition("db", "PodScheduled")["reason"] == "SchedulerError")
        .await;
    until("the node is selected again", || selected_node(&world) == "n1").await;
    complete(&world, "data", "pvc-1");
    until("the pod is bound", || world.node_of("db") == "n1").await;
}
