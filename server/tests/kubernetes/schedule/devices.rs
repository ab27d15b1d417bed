//! Claims for devices: what `berth schedule` writes for them, and which of their changes wake pods. Rules: S-DRA-13,
//! S-DRA-94, S-DRA-95, S-DRA-99, S-DRA-106, S-DRA-125 to S-DRA-127.

use serde_json::{Value, json};

use super::world::{Instance, World, fast_options, get, pause, until};

/// A class of devices, and a slice of two devices on each of some nodes.
fn devices(world: &World, nodes: &[&str], extended: Option<&str>) {
    world.create(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpu.example.com\""}}],
            "extendedResourceName": extended}}));
    nodes.iter().for_each(|node| slice(world, node));
}

/// A slice of two devices on a node.
fn slice(world: &World, node: &str) {
    world.create(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-gpu")},
        "spec": {"driver": "gpu.example.com", "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}}));
}

fn claim(world: &World, name: &str, count: u32) {
    world.create(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": [{"name": "r",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}]}}}));
}

fn claimed(world: &World, name: &str) -> Value {
    world.api.store().get("ResourceClaim", "default", name).unwrap_or_default()
}

fn pod(world: &World, name: &str, claim: &str) {
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]});
    world.pod_with(name, "1", claims, json!({}));
}

/// Devices of a claim, as `POOL/DEVICE`.
fn allocated(claim: &Value) -> Vec<String> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let device = |result: &Value| format!("{}/{}", text(&result["pool"]), text(&result["device"]));
    results.into_iter().flatten().map(device).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_allocated_and_reserved_before_its_pod_is_bound() {
    let world = World::new().await;
    world.node("n1", 4);
    pod(&world, "first", "one");
    let instance = world.start(fast_options()).await;
    // Its claim is not there: it is held back, and no condition says so (S-Q-7).
    until("it waits", || instance.scheduler.counts().unschedulable == 1).await;
    assert_eq!(world.condition("first", "PodScheduled"), Value::Null);
    devices(&world, &["n1"], None);
    claim(&world, "one", 2);
    until("the first is bound", || world.node_of("first") == "n1").await;
    let one = claimed(&world, "one");
    assert_eq!(allocated(&one), ["n1/gpu-0", "n1/gpu-1"]);
    assert_eq!(one["status"]["reservedFor"][0]["name"], "first");
    assert_eq!(one["metadata"]["finalizers"], json!(["resource.kubernetes.io/delete-protection"]));
    assert!(one["status"]["allocation"]["allocationTimestamp"].is_string(), "{one}");

    // No device is left.
    claim(&world, "two", 1);
    pod(&world, "second", "two");
    until("the second waits", || world.condition("second", "PodScheduled")["status"] == "False")
        .await;
    let condition = world.condition("second", "PodScheduled");
    let message = condition["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("1 cannot allocate all claims"), "{message}");
    assert_eq!(allocated(&claimed(&world, "two")), [] as [&str; 0]);
    instance.stop().await;
}

/// Number of attempts so far that found no node.
async fn n_rejected(instance: &Instance) -> u64 {
    let series = "berth_schedule_attempts_total{result=\"unschedulable\",profile=\"berth\"} ";
    let metrics = get(instance, "/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0, |count| count.parse().expect("a number"))
}

/// S-DRA-125, S-DRA-126
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_another_pod_causes_no_attempt_and_a_deallocation_does() {
    let world = World::new().await;
    world.node("n1", 4);
    devices(&world, &["n1"], None);
    claim(&world, "one", 2);
    pod(&world, "first", "one");
    let instance = world.start(fast_options()).await;
    until("the first is bound", || world.node_of("first") == "n1").await;
    claim(&world, "two", 1);
    pod(&world, "second", "two");
    until("the second was tried", || world.condition("second", "PodScheduled") != Value::Null)
        .await;
    until("the second waits", || instance.scheduler.counts().unschedulable == 1).await;
    // The claim of the first may have changed during the attempt.
    pause().await;
    let before = n_rejected(&instance).await;
    assert!(before > 0);

    claim(&world, "three", 1);
    pod(&world, "third", "none");
    let mut one = claimed(&world, "one");
    one["metadata"]["labels"] = json!({"a": "b"});
    one["status"]["reservedFor"] = json!([{"resource": "pods", "name": "x", "uid": "x"}]);
    world.api.store().replace(one).expect("a claim");
    world.api.store().delete("ResourceClaim", "default", "three").expect("a claim");
    world.api.store().delete("ResourceSlice", "", "n1-gpu").expect("a slice");
    until("all of them wait", || instance.scheduler.counts().unschedulable == 2).await;
    pause().await;
    assert_eq!(n_rejected(&instance).await, before, "nothing happened that can help");

    slice(&world, "n1");
    pause().await;
    assert!(n_rejected(&instance).await > before, "a slice may help");
    until("both wait again", || instance.scheduler.counts().unschedulable == 2).await;
    let mut one = claimed(&world, "one");
    one["status"] = json!({});
    world.api.store().replace(one).expect("a claim");
    until("the second is bound", || world.node_of("second") == "n1").await;
    instance.stop().await;
}

/// S-DRA-13, S-DRA-127: a pod whose claim is made from a template waits for the claim, then for its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_generated_claim_wakes_the_pod_that_waits_for_it() {
    let world = World::new().await;
    world.node("n1", 4);
    devices(&world, &["n1"], None);
    let claims =
        json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]});
    let mut owner = world.pod_with("p", "1", claims, json!({}));
    let instance = world.start(fast_options()).await;
    until("it waits", || instance.scheduler.counts().unschedulable == 1).await;
    let uid = &owner["metadata"]["uid"];
    world.create(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": "made", "ownerReferences":
            [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]},
        "spec": {"devices": {"requests": [{"name": "r",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}}));
    pause().await;
    assert_eq!(instance.scheduler.counts().unschedulable, 1, "the claim's name is not known");
    owner["status"] =
        json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]});
    world.api.store().replace(owner).expect("a pod");
    until("it is bound", || world.node_of("p") == "n1").await;
    assert_eq!(allocated(&claimed(&world, "made")), ["n1/gpu-0"]);
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extended_resources_come_from_devices() {
    let world = World::new().await;
    world.node("n1", 4);
    devices(&world, &["n1"], Some("example.com/gpu"));
    let container = json!({"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}});
    world.pod_with("p", "1", json!({"containers": [container]}), json!({}));
    let instance = world.start(fast_options()).await;
    until("it is bound", || world.node_of("p") == "n1").await;
    let claims = world.api.store().list("ResourceClaim");
    let [claim] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(allocated(claim), ["n1/gpu-0"]);
    assert_eq!(
        claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"],
        "true"
    );
    let status = &world.get("p")["status"]["extendedResourceClaimStatus"];
    assert_eq!(status["resourceClaimName"], claim["metadata"]["name"]);
    assert_eq!(status["requestMappings"][0]["containerName"], "c");
    instance.stop().await;
}
