//! Hand-off: Berth nominates pods, and another scheduler binds them.

use std::time::Duration;

use berth_server::scheduler::SchedulerOptions;
use serde_json::json;

use crate::schedule::world::{World, fast_options, pause, text, until};

fn handing_off() -> SchedulerOptions {
    SchedulerOptions {
        hand_off: true,
        nomination_timeout: Duration::from_millis(600),
        ..fast_options()
    }
}

fn nominated(world: &World, name: &str) -> String {
    text(&world.get(name)["status"]["nominatedNodeName"])
}

fn bind(world: &World, name: &str, node: &str) {
    let mut pod = world.get(name);
    pod["spec"]["nodeName"] = json!(node);
    world.api.store().replace(pod).expect("the pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_nominated_and_nothing_else() {
    let world = World::new().await;
    world.node("n1", 1);
    world.node("n2", 1);
    for name in ["a", "b", "c"] {
        world.pod(name, "1");
    }
    let instance = world.start(handing_off()).await;
    until("two are nominated", || {
        ["a", "b", "c"].iter().filter(|name| !nominated(&world, name).is_empty()).count() == 2
    })
    .await;
    let (a, b) = (nominated(&world, "a"), nominated(&world, "b"));
    assert_ne!(a, b, "each has its room to itself");
    until("the third waits", || instance.scheduler.counts().unschedulable == 1).await;
    pause().await;
    assert_eq!(nominated(&world, "c"), "");
    assert!(world.api.store().bindings().is_empty());
    assert!(world.condition("c", "PodScheduled").is_null(), "that is kube-scheduler's to say");
    assert_eq!(world.api.store().list("Event").len(), 0);
    // A new node has room for the third pod; then `a` is bound to its nominated node, as by kube-scheduler, and two are
    // held.
    world.node("n3", 1);
    until("the third is nominated", || nominated(&world, "c") == "n3").await;
    bind(&world, "a", &a);
    until("the queue has two", || instance.scheduler.counts().held == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nomination_that_no_longer_holds_is_changed_and_one_that_nothing_replaces_is_cleared() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod("web", "2");
    let instance = world.start(handing_off()).await;
    until("it is nominated", || nominated(&world, "web") == "n1").await;
    world.node("n2", 2);
    world.api.store().delete("Node", "", "n1").expect("the node");
    until("it is nominated anew", || nominated(&world, "web") == "n2").await;
    world.api.store().delete("Node", "", "n2").expect("the node");
    until("it is not nominated any more", || nominated(&world, "web").is_empty()).await;
    until("it waits", || instance.scheduler.counts().unschedulable == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_promised_is_left_alone() {
    let world = World::new().await;
    world.node("n1", 1);
    world.node("n2", 4);
    world.pod_with("low", "1", json!({"nodeName": "n1", "priority": -1}), json!({}));
    let mut preemptor = world.pod_with("preemptor", "1", json!({"priority": 9}), json!({}));
    preemptor["status"]["nominatedNodeName"] = json!("n1");
    world.api.store().replace(preemptor).expect("the pod");
    let instance = world.start(handing_off()).await;
    until("it is seen", || instance.scheduler.counts().held == 1).await;
    pause().await;
    assert_eq!(nominated(&world, "preemptor"), "n1");
    assert_eq!(world.node_of("low"), "n1");
}
