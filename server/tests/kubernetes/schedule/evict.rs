//! Preemption: which pods are displaced, what is written to them, and the condition of the preempting pod.

use berth_server::scheduler::{BindRate, SchedulerOptions};
use serde_json::json;

use crate::schedule::world::{World, fast_options, pause, text, until};
use berth_fake_apiserver::Options;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_displaces_others_and_takes_their_place() {
    let world = World::new().await;
    world.node("n1", 2);
    let low = json!({"priority": -1, "terminationGracePeriodSeconds": 7});
    world.pod_with("low", "2", low, json!({}));
    let _instance = world.start(fast_options()).await;
    until("the low one is bound", || world.node_of("low") == "n1").await;
    let high = world.pod_with("high", "2", json!({"priority": 10}), json!({}));
    until("the high one is bound", || world.node_of("high") == "n1").await;
    assert!(world.get("low").is_null());
    let requests = world.api.store().requests();
    let deletions: Vec<_> =
        requests.iter().filter(|it| it.method == "DELETE").map(|it| it.target.clone()).collect();
    assert_eq!(deletions.len(), 1, "{deletions:?}");
    assert!(deletions[0].starts_with("/api/v1/namespaces/default/pods/low"));
    until("the event is there", || !world.events("low", "Preempted").is_empty()).await;
    let note = format!("Preempted by pod {} on node n1", text(&high["metadata"]["uid"]));
    assert_eq!(world.events("low", "Preempted"), [(note, 1)]);
    assert_eq!(
        world.events("high", "FailedScheduling"),
        [("0/1 nodes are available: 1 Insufficient cpu.".to_owned(), 1)]
    );
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_victims_go_the_node_is_promised_and_nobody_is_evicted_twice() {
    let world = World::with(Options { grace_scale: 1.0, ..Options::default() }).await;
    world.node("n1", 2);
    let low = json!({"priority": -1, "terminationGracePeriodSeconds": 2});
    world.pod_with("low", "2", low, json!({"generation": 7}));
    let _instance = world.start(fast_options()).await;
    until("the low one is bound", || world.node_of("low") == "n1").await;
    world.pod_with("high", "2", json!({"priority": 10}), json!({}));
    until("the victim is deleted", || !world.get("low")["metadata"]["deletionTimestamp"].is_null())
        .await;
    let target = world.condition("low", "DisruptionTarget");
    assert_eq!(
        (text(&target["status"]), text(&target["reason"])),
        ("True".into(), "PreemptionByScheduler".into())
    );
    assert_eq!(target["observedGeneration"], 7);
    assert_eq!(target["message"], "berth: preempting to accommodate a higher priority pod");
    assert_eq!(
        world.get("low")["metadata"]["deletionGracePeriodSeconds"],
        2,
        "its own grace period"
    );
    until("the node is promised", || world.get("high")["status"]["nominatedNodeName"] == "n1")
        .await;
    // The room is promised: a pod of no higher priority waits, although the node is empty by now.
    world.pod_with("late", "1", json!({"priority": 5}), json!({}));
    until("the high one is bound", || world.node_of("high") == "n1").await;
    let requests = world.api.store().requests();
    assert_eq!(requests.iter().filter(|it| it.method == "DELETE").count(), 1);
    pause().await;
    assert_eq!(world.node_of("late"), "");
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_may_not_preempt_says_so_and_evicts_nobody() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod_with("low", "2", json!({"priority": -1}), json!({}));
    let _instance = world.start(fast_options()).await;
    until("the low one is bound", || world.node_of("low") == "n1").await;
    let polite = json!({"priority": 10, "preemptionPolicy": "Never"});
    world.pod_with("polite", "2", polite, json!({}));
    until("the condition is there", || {
        world.condition("polite", "PodScheduled")["status"] == "False"
    })
    .await;
    let message = text(&world.condition("polite", "PodScheduled")["message"]);
    assert_eq!(
        message,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to \
         preemptionPolicy=Never."
    );
    pause().await;
    assert_eq!(world.node_of("low"), "n1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_higher_pod_takes_the_promise_of_a_lower_one() {
    // Victims take so long to go that another pod comes meanwhile.
    let world = World::with(Options { grace_scale: 1.0, ..Options::default() }).await;
    world.node("n1", 2);
    let low = json!({"priority": -1, "terminationGracePeriodSeconds": 3});
    world.pod_with("low", "2", low, json!({}));
    let _instance = world.start(fast_options()).await;
    until("the low one is bound", || world.node_of("low") == "n1").await;
    world.pod_with("middle", "2", json!({"priority": 5}), json!({}));
    until("it is promised", || world.get("middle")["status"]["nominatedNodeName"] == "n1").await;
    world.pod_with("high", "2", json!({"priority": 10}), json!({}));
    until("the higher is promised", || world.get("high")["status"]["nominatedNodeName"] == "n1")
        .await;
    until("the lower is not any more", || {
        text(&world.get("middle")["status"]["nominatedNodeName"]).is_empty()
    })
    .await;
    until("the high one is bound", || world.node_of("high") == "n1").await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_victim_that_is_not_bound_yet_waits_again_and_is_not_deleted() {
    let world = World::new().await;
    world.node("n0", 1);
    world.node("n1", 2);
    let rate = BindRate { per_second: 0.25, burst: 1 };
    let there = json!({"nodeSelector": {"kubernetes.io/hostname": "n0"}});
    world.pod_with("first", "1", there, json!({}));
    let options = SchedulerOptions { bind_rate: Some(rate), ..fast_options() };
    let instance = world.start(options).await;
    until("the first takes the token", || world.n_bound() == 1).await;
    world.pod_with("low", "2", json!({"priority": -1}), json!({}));
    until("the low one waits for its own", || instance.scheduler.counts().in_flight == 1).await;
    pause().await;
    assert_eq!(world.node_of("low"), "");
    world.pod_with("high", "2", json!({"priority": 10}), json!({}));
    until("the high one is bound", || !world.node_of("high").is_empty()).await;
    assert!(!world.get("low").is_null(), "a pod that never ran is not deleted");
    assert_eq!(world.node_of("low"), "");
    let requests = world.api.store().requests();
    assert!(requests.iter().all(|it| it.method != "DELETE"), "{requests:?}");
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_goes_for_a_pod_that_is_gone() {
    let world = World::new().await;
    world.node("n1", 2);
    world.pod_with("low", "2", json!({"priority": -1}), json!({}));
    let instance = world.start(fast_options()).await;
    until("the low one is bound", || world.node_of("low") == "n1").await;
    world.api.faults().only("/pods/high/status");
    world.api.faults().refuse(1.0, 500);
    world.pod_with("high", "2", json!({"priority": 10}), json!({}));
    until("its condition is being written", || world.n_faults("refuse") > 0).await;
    world.api.store().delete("Pod", "default", "high").expect("the pod");
    until("nothing is under way", || instance.scheduler.counts().in_flight == 0).await;
    for _ in 0..6 {
        pause().await;
    }
    assert!(world.get("low")["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(world.node_of("low"), "n1");
}
