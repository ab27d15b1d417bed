//! Leader election: one of several instances schedules, and another takes over when it ends.

use std::time::Duration;

use serde_json::json;

use crate::probe::answer_when;
use crate::schedule::world::{self, World, elected, fast_options, pause, text, until};

fn lease(world: &World) -> serde_json::Value {
    world.api.store().get("Lease", "berth", "berth-scheduler").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_says_so() {
    let world = World::new().await;
    world.node("n1", 64);
    let first = world.start(elected("first")).await;
    until("the first leads", || first.scheduler.is_leading()).await;
    let second = world.start(elected("second")).await;
    world.pod("web", "1");
    until("the pod is bound", || world.node_of("web") == "n1").await;
    assert!(!second.scheduler.is_leading());
    let ready = world::get(&second, "/readyz?verbose").await;
    assert!(ready.contains("200 OK"), "a standby is ready: {ready}");
    assert!(ready.contains("[+]leader ok: `first` leads, this instance stands by"), "{ready}");
    let spec = lease(&world)["spec"].clone();
    assert_eq!(
        (text(&spec["holderIdentity"]), &spec["leaseTransitions"]),
        ("first".into(), &json!(0))
    );
    let renewed = text(&spec["renewTime"]);
    assert_eq!(renewed.len(), "2026-11-21T07:40:00.000000Z".len(), "{renewed}");
    until("it is renewed", || text(&lease(&world)["spec"]["renewTime"]) != renewed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_hands_over_at_once() {
    let world = World::new().await;
    world.node("n1", 64);
    // The lease outlasts the test, so it has a second holder only if it is given up.
    let for_long = |identity| {
        let mut options = elected(identity);
        options.lease.as_mut().expect("it is elected").lease_duration = Duration::from_secs(3_600);
        options
    };
    let first = world.start(for_long("first")).await;
    until("the first leads", || first.scheduler.is_leading()).await;
    let second = world.start(for_long("second")).await;
    first.stop().await;
    assert_ne!(lease(&world)["spec"]["holderIdentity"], "first");
    until("the second leads", || second.scheduler.is_leading()).await;
    assert_eq!(lease(&world)["spec"]["leaseTransitions"], 1);
    world.pod("web", "1");
    until("the pod is bound", || world.node_of("web") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_are_killed_one_after_another_bind_nothing_twice() {
    let world = World::new().await;
    for i in 0..20 {
        world.node(&format!("n{i}"), 10);
    }
    for i in 0..200 {
        world.pod(&format!("p{i}"), "1");
    }
    world.api.faults().only("/binding");
    world.api.faults().latency(Duration::from_millis(60));
    world.api.faults().lose_answer(0.2);
    let mut leader = world.start(elected("i0")).await;
    for (i, n_bound) in [30, 80, 130].into_iter().enumerate() {
        let standby = world.start(elected(&format!("i{}", i + 1))).await;
        until("some are bound", || world.n_bound() >= n_bound).await;
        leader.kill();
        leader = standby;
    }
    until("all are bound", || world.n_bound() == 200).await;
    assert!(leader.scheduler.is_leading());
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_stops_before_another_begins() {
    let world = World::new().await;
    world.node("n1", 64);
    let only = world.start(elected("only")).await;
    until("it leads", || only.scheduler.is_leading()).await;
    world.api.faults().only("/leases/");
    world.api.faults().refuse(1.0, 503);
    until("it leads no more", || !only.scheduler.is_leading()).await;
    world.pod("web", "1");
    pause().await;
    assert_eq!(world.node_of("web"), "", "who does not lead binds nothing");
    world.api.faults().none();
    until("it leads again", || only.scheduler.is_leading()).await;
    until("the pod is bound", || world.node_of("web") == "n1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_both_believe_to_lead_bind_no_pod_twice() {
    // Elections do not allow two leaders, but a wrong flag does.
    let world = World::new().await;
    for i in 0..20 {
        world.node(&format!("n{i}"), 100);
    }
    let (_a, _b) = (world.start(fast_options()).await, world.start(fast_options()).await);
    for i in 0..200 {
        world.pod(&format!("p{i}"), "1");
    }
    until("all are bound", || world.n_bound() == 200).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_first_learns_what_the_one_before_it_did() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.pod(name, "2");
    }
    let first = world.start(elected("first")).await;
    until("the first leads", || first.scheduler.is_leading()).await;
    until("both wait", || first.scheduler.counts().unschedulable == 2).await;
    let second = world.start(elected("second")).await;
    until("the second has its pods", || second.scheduler.counts().active == 2).await;
    // From now on the second instance's watch of pods is silent, which looks to it like a quiet cluster.
    world.api.faults().only("GET /api/v1/pods?");
    world.api.faults().stall(true);
    world.node("n1", 2);
    until("one is bound", || world.n_bound() == 1).await;
    first.stop().await;
    until("the second leads", || second.scheduler.is_leading()).await;
    pause().await;
    pause().await;
    assert_eq!(world.n_bound(), 1, "it does not know yet that the node is full");
    world.api.faults().none();
    world.api.faults().cut_now();
    until("the other one waits", || second.scheduler.counts().unschedulable == 1).await;
    world.node("n2", 2);
    until("it is bound", || world.n_bound() == 2).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_silent_connection_does_not_cost_the_leadership() {
    let world = World::new().await;
    let only = world.start(elected("only")).await;
    until("it leads", || only.scheduler.is_leading()).await;
    let renewed = |world: &World| text(&lease(world)["spec"]["renewTime"]);
    let before = renewed(&world);
    world.api.faults().only("/leases/");
    world.api.faults().latency(Duration::from_secs(60));
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.api.faults().none();
    let mut always = true;
    until("it is renewed", || {
        always &= only.scheduler.is_leading();
        renewed(&world) != before && !renewed(&world).is_empty()
    })
    .await;
    for _ in 0..40 {
        always &= only.scheduler.is_leading();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(always, "it lost the leadership for one request");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_have_the_lease_is_not_ready() {
    let world = World::new().await;
    world.api.faults().only("/leases");
    world.api.faults().refuse(1.0, 403);
    let only = world.start(elected("only")).await;
    let address = only.server.http_address();
    let ready =
        answer_when(address, "/readyz?verbose", |answer| answer.contains("[-]leader")).await;
    assert!(ready.contains("503 Service Unavailable"), "{ready}");
    assert!(
        ready.contains(
            "this instance cannot lead: cannot get the Lease `berth/berth-scheduler`: the API server refused with 403: \
             forbidden: a configured fault; `get`, `create`, `update` and `watch` on `leases` are needed there, as in \
             deploy/rbac/scheduler.yaml"
        ),
        "{ready}"
    );
    world.api.faults().none();
    until("it leads", || only.scheduler.is_leading()).await;
    let ready = world::get(&only, "/readyz?verbose").await;
    assert!(ready.contains("[+]leader ok: this instance leads"), "{ready}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_may_not_watch_the_lease_takes_over_all_the_same() {
    let world = World::new().await;
    world.api.faults().only("watch=true");
    world.api.faults().refuse(1.0, 403);
    let first = world.start(elected("first")).await;
    until("the first leads", || first.scheduler.is_leading()).await;
    let second = world.start(elected("second")).await;
    first.kill();
    until("the second leads", || second.scheduler.is_leading()).await;
}
