//! An API server that refuses requests, loses responses, or has another binding first.

use std::time::Duration;

use serde_json::json;

use crate::schedule::world::{World, elected, fast_options, pause, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_whose_answer_is_lost_is_no_second_binding() {
    let world = World::new().await;
    world.node("n1", 64);
    world.api.faults().only("/binding");
    world.api.faults().lose_answer(0.7);
    for i in 0..30 {
        world.pod(&format!("p{i}"), "1");
    }
    let _instance = world.start(fast_options()).await;
    until("all are bound", || world.n_bound() == 30).await;
    until("all are said to be", || {
        (0..30).all(|i| !world.events(&format!("p{i}"), "Scheduled").is_empty())
    })
    .await;
    assert!(world.api.faults().done()["lose_answer"] > 5);
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_a_busy_server_is_repeated() {
    let world = World::new().await;
    world.node("n1", 64);
    world.api.faults().only("/binding");
    world.api.faults().refuse(0.5, 429);
    for i in 0..20 {
        world.pod(&format!("p{i}"), "1");
    }
    let _instance = world.start(fast_options()).await;
    until("all are bound", || world.n_bound() == 20).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_trouble_keeps_pods_in_their_room_until_it_answers() {
    let world = World::new().await;
    world.node("n1", 2);
    world.api.faults().only("/binding");
    world.api.faults().refuse(1.0, 503);
    world.pod("first", "2");
    let instance = world.start(fast_options()).await;
    until("it is being bound", || world.n_faults("refuse") > 0).await;
    // The outcome of the binding is unknown, so no other pod gets its room.
    world.pod("second", "2");
    until("the second waits", || instance.scheduler.counts().unschedulable == 1).await;
    pause().await;
    assert_eq!(world.n_bound(), 0);
    world.api.faults().none();
    until("the first is bound", || world.node_of("first") == "n1").await;
    pause().await;
    assert_eq!(world.node_of("second"), "");
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_refused_gives_its_room_back_and_says_so() {
    let world = World::new().await;
    world.node("n1", 2);
    world.api.faults().only("/pods/first/binding");
    world.api.faults().refuse(1.0, 403);
    world.pod("first", "2");
    let instance = world.start(fast_options()).await;
    until("it says why", || world.condition("first", "PodScheduled")["status"] == "False").await;
    let condition = world.condition("first", "PodScheduled");
    assert_eq!(condition["reason"], "SchedulerError");
    assert!(
        text(&condition["message"]).starts_with("running Bind plugin \"DefaultBinder\": "),
        "{condition}"
    );
    world.pod("second", "2");
    until("another has the room", || world.node_of("second") == "n1").await;
    world.api.faults().none();
    until("the first waits", || instance.scheduler.counts().unschedulable == 1).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_else_bound_is_left_there() {
    let world = World::new().await;
    world.node("n1", 2);
    world.api.faults().only("/pods/raced/binding");
    world.api.faults().latency(Duration::from_millis(500));
    world.pod("raced", "2");
    let instance = world.start(fast_options()).await;
    until("it is being bound", || world.n_faults("latency") > 0).await;
    // The node of that binding is unknown to Berth.
    let mut pod = world.get("raced");
    pod["spec"]["nodeName"] = json!("elsewhere");
    world.api.store().replace(pod).expect("the pod");
    until("the queue is empty", || instance.scheduler.counts().in_flight == 0).await;
    assert_eq!(world.node_of("raced"), "elsewhere");
    world.pod("next", "2");
    until("its room is free", || world.node_of("next") == "n1").await;
    assert_eq!(world.api.store().bindings().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_goes_and_comes_again_under_its_name_is_another() {
    let world = World::new().await;
    world.node("n1", 2);
    world.api.faults().only("/pods/again/binding");
    world.api.faults().latency(Duration::from_millis(500));
    world.pod("again", "2");
    let _instance = world.start(fast_options()).await;
    until("it is being bound", || world.n_faults("latency") > 0).await;
    world.api.store().delete("Pod", "default", "again").expect("the pod");
    let again = world.pod("again", "1");
    until("the new one is bound", || world.node_of("again") == "n1").await;
    let bindings = world.api.store().bindings();
    assert_eq!(bindings.len(), 1);
    assert_eq!(bindings[0].uid, text(&again["metadata"]["uid"]));
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_cannot_be_written_stops_nobody() {
    let world = World::new().await;
    world.node("n1", 1);
    world.api.faults().only("/status");
    world.api.faults().refuse(1.0, 500);
    world.pod("big", "4");
    let instance = world.start(fast_options()).await;
    until("it waits all the same", || instance.scheduler.counts().unschedulable == 1).await;
    world.node("n2", 8);
    until("it is bound", || world.node_of("big") == "n2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_the_server_cannot_take_is_given_up_and_said_to_be() {
    let world = World::new().await;
    world.node("n1", 2);
    world.api.faults().only("/pods/hooked/binding");
    world.api.faults().refuse(1.0, 500);
    world.pod("hooked", "2");
    let _instance = world.start(fast_options()).await;
    until("it says why", || world.condition("hooked", "PodScheduled")["status"] == "False").await;
    assert_eq!(world.condition("hooked", "PodScheduled")["reason"], "SchedulerError");
    world.api.faults().none();
    until("it is bound", || world.node_of("hooked") == "n1").await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_fate_of_a_binding_is_not_known_its_room_outlasts_the_leadership() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod("first", "2");
    world.api.faults().only("/pods/first");
    world.api.faults().lose_answer(1.0);
    let instance = world.start(elected("only")).await;
    until("it is bound, and nobody knows", || world.n_bound() == 1).await;
    // The server no longer answers: neither watches of pods, nor reads of the pod or of the Lease.
    world.api.faults().only("");
    world.api.faults().refuse(1.0, 503);
    world.api.faults().stall(true);
    until("it leads no more", || !instance.scheduler.is_leading()).await;
    pause().await;
    world.api.faults().none();
    world.pod("second", "2");
    until("it leads again", || instance.scheduler.is_leading()).await;
    until("the second waits", || instance.scheduler.counts().unschedulable == 1).await;
    assert_eq!(world.node_of("second"), "");
    world.check_bindings();
}
