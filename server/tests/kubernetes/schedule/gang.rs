//! Groups: enough of their pods get a node, or none does.

use std::time::Duration;

use serde_json::{Value, json};

use crate::schedule::world::{World, fast_options, pause, text, until};

fn member(world: &World, name: &str, cpu: &str, min_available: &str) -> Value {
    let labels = json!({"labels": {
        "scheduling.kubernetes.io/pod-group": "train", "scheduling.kubernetes.io/min-available": min_available,
    }});
    world.pod_with(name, cpu, json!({}), labels)
}

#[tokio::test(flavor = "multi_thread")]
async fn none_is_bound_until_enough_fit() {
    let world = World::new().await;
    world.node("n1", 2);
    for name in ["a", "b", "c"] {
        member(&world, name, "1", "3");
    }
    let _instance = world.start(fast_options()).await;
    for name in ["a", "b", "c"] {
        until("it says why", || world.condition(name, "PodScheduled")["status"] == "False").await;
        let message = text(&world.condition(name, "PodScheduled")["message"]);
        assert!(
            message.starts_with(
                "pod group `default/train`: 2 of 3 pods fit, and 3 are to be placed together: 0/1 nodes are available: 1 \
                 Insufficient cpu."
            ),
            "{message}"
        );
    }
    pause().await;
    assert_eq!(world.n_bound(), 0);
    // Room that the group does not use is free for others: none is held while the group waits.
    world.pod("single", "1");
    until("the single one is bound", || world.node_of("single") == "n1").await;
    world.node("n2", 2);
    until("all are bound", || world.n_bound() == 4).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_waits_for_its_members() {
    let world = World::new().await;
    world.node("n1", 8);
    member(&world, "a", "1", "2");
    let _instance = world.start(fast_options()).await;
    until("it says why", || world.condition("a", "PodScheduled")["status"] == "False").await;
    assert_eq!(
        world.condition("a", "PodScheduled")["message"],
        "pod group `default/train` has 1 of the 2 pods that are to be placed together"
    );
    member(&world, "b", "1", "2");
    until("both are bound", || world.n_bound() == 2).await;
    // A pod that comes later, or is created again, joins the existing members.
    member(&world, "c", "1", "2");
    until("the third is bound", || world.n_bound() == 3).await;
    world.api.store().delete("Pod", "default", "a").expect("the pod");
    member(&world, "a2", "1", "2");
    until("its successor is bound", || world.node_of("a2") == "n1").await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_valid_size_has_an_error() {
    let world = World::new().await;
    world.node("n1", 8);
    member(&world, "a", "1", "some");
    let _instance = world.start(fast_options()).await;
    until("it says why", || world.condition("a", "PodScheduled")["status"] == "False").await;
    let condition = world.condition("a", "PodScheduled");
    assert_eq!(condition["reason"], "SchedulerError");
    assert!(text(&condition["message"]).contains("is not a number from 1"), "{condition}");
    pause().await;
    assert_eq!(world.n_bound(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_comes_while_conditions_are_written_is_not_bound_alone() {
    let world = World::new().await;
    world.node("n1", 1);
    world.api.faults().only("/status");
    world.api.faults().latency(Duration::from_millis(600));
    member(&world, "a", "1", "3");
    member(&world, "b", "1", "3");
    let _instance = world.start(fast_options()).await;
    until("their conditions are being written", || world.n_faults("latency") == 2).await;
    member(&world, "c", "1", "3");
    until("all three have their condition", || {
        let message = |name| text(&world.condition(name, "PodScheduled")["message"]);
        ["a", "b", "c"].iter().all(|name| message(name).contains("1 of 3 pods fit"))
    })
    .await;
    assert_eq!(world.n_bound(), 0);
    world.node("n2", 2);
    until("all are bound", || world.n_bound() == 3).await;
    world.check_bindings();
}
