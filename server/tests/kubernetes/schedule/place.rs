//! Pods get their nodes, or a condition with the reason.

use std::time::Duration;

use serde_json::json;

use crate::schedule::world::{self, World, fast_options, pause, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_pod_has_its_condition_and_event() {
    let world = World::new().await;
    world.node("n1", 4);
    world.pod("web", "1");
    world.pod_with("other", "1", json!({"schedulerName": "default-scheduler"}), json!({}));
    let _instance = world.start(fast_options()).await;
    until("the pod is bound", || world.node_of("web") == "n1").await;
    assert_eq!(world.condition("web", "PodScheduled")["status"], "True");
    until("the event is there", || !world.events("web", "Scheduled").is_empty()).await;
    assert_eq!(
        world.events("web", "Scheduled"),
        [("Successfully assigned default/web to n1".to_owned(), 1)]
    );
    pause().await;
    assert_eq!(world.node_of("other"), "", "another scheduler's pod");
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_says_why_and_is_placed_when_a_node_comes() {
    let world = World::new().await;
    world.node("n1", 1);
    world.pod("big", "2");
    let _instance = world.start(fast_options()).await;
    until("the condition is there", || world.condition("big", "PodScheduled")["status"] == "False")
        .await;
    let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are \
                   available: 1 Preemption is not helpful for scheduling.";
    let condition = world.condition("big", "PodScheduled");
    assert_eq!(
        (text(&condition["reason"]), text(&condition["message"])),
        ("Unschedulable".into(), message.into())
    );
    until("the event is there", || !world.events("big", "FailedScheduling").is_empty()).await;
    assert_eq!(world.events("big", "FailedScheduling"), [(message.to_owned(), 1)]);
    let n_writes = || {
        let requests = world.api.store().requests();
        requests.iter().filter(|it| it.method == "PATCH" && it.target.contains("/pods/")).count()
    };
    let before = n_writes();
    // A new namespace does not help: the pod is not tried again, and nothing is written.
    world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}}));
    pause().await;
    assert_eq!((n_writes(), world.events("big", "FailedScheduling").len()), (before, 1));
    world.node("n2", 4);
    until("the pod is bound", || world.node_of("big") == "n2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_nodes_the_condition_says_so() {
    let world = World::new().await;
    world.pod("web", "1");
    let _instance = world.start(fast_options()).await;
    until("the condition is there", || world.condition("web", "PodScheduled")["status"] == "False")
        .await;
    let message = text(&world.condition("web", "PodScheduled")["message"]);
    assert!(message.starts_with("no nodes available to schedule pods"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_hold_a_pod_back_until_they_are_gone() {
    let world = World::new().await;
    world.node("n1", 4);
    world.pod_with(
        "gated",
        "1",
        json!({"schedulingGates": [{"name": "example.com/wait"}]}),
        json!({}),
    );
    let instance = world.start(fast_options()).await;
    until("the queue knows", || instance.scheduler.counts().gated == 1).await;
    pause().await;
    assert_eq!(world.node_of("gated"), "");
    let mut pod = world.get("gated");
    pod["spec"]["schedulingGates"] = json!([]);
    world.api.store().replace(pod).expect("the pod");
    until("the pod is bound", || world.node_of("gated") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_can_allocate_frees_those_that_wait_for_it() {
    let world = World::new().await;
    world.node("n1", 1);
    world.pod("big", "3");
    let instance = world.start(fast_options()).await;
    until("the pod waits", || instance.scheduler.counts().unschedulable == 1).await;
    let mut node = world.api.store().get("Node", "", "n1").expect("the node");
    node["status"]["allocatable"]["cpu"] = json!("4");
    world.api.store().replace(node).expect("the node");
    until("the pod is bound", || world.node_of("big") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ends_makes_room() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod("first", "2");
    let instance = world.start(fast_options()).await;
    until("the first is bound", || world.node_of("first") == "n1").await;
    world.pod("second", "2");
    until("the second waits", || instance.scheduler.counts().unschedulable == 1).await;
    world.api.store().delete("Pod", "default", "first").expect("the pod");
    until("the second is bound", || world.node_of("second") == "n1").await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_count_what_was_done() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod("web", "1");
    world.pod("big", "4");
    let instance = world.start(fast_options()).await;
    until("one is bound", || world.node_of("web") == "n1").await;
    until("one waits", || instance.scheduler.counts().unschedulable == 1).await;
    let expected = [
        "berth_schedule_attempts_total{result=\"scheduled\",profile=\"berth\"} 1",
        "berth_scheduling_attempt_duration_seconds_count{result=\"scheduled\",profile=\"berth\"} 1",
        "berth_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 1",
        "berth_pod_scheduling_attempts_bucket{le=\"1\"} 1",
        "berth_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",status=\"Success\",profile=\"berth\"} 1",
        "berth_queue_incoming_pods_total{queue=\"active\",event=\"UnscheduledPodAdd\"} 2",
        "berth_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"berth\"} 1",
        "berth_pending_pods{queue=\"unschedulable\"} 1",
        "berth_binds_total{outcome=\"bound\"} 1",
        "berth_leader 1",
    ];
    // The last counts may follow the Binding a moment later.
    let mut missing = "anything";
    let counting = async {
        loop {
            let text = world::get(&instance, "/metrics").await;
            let Some(line) = expected.iter().find(|line| !text.contains(**line)) else { break };
            missing = line;
            pause().await;
        }
    };
    let counted = tokio::time::timeout(Duration::from_secs(60), counting).await;
    assert!(counted.is_ok(), "no `{missing}`");
    let ready = world::get(&instance, "/readyz?verbose").await;
    assert!(ready.contains("[+]leader ok: this instance leads"), "{ready}");
}
