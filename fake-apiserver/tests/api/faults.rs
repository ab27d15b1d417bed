//! Each fault has its documented effect and no other.

use std::time::{Duration, Instant};

use crate::client::{Next, World, event_text};
use crate::objects::{PODS, bind, bind_body, pod, with_pods};

const SOON: Duration = Duration::from_millis(300);

fn watched(world: &World) -> crate::client::Stream {
    world.watch(&format!("{PODS}?watch=1&resourceVersion=0"))
}

fn create(world: &World, n: usize) {
    for i in 0..n {
        world.store().create(pod(&format!("q{i:03}"))).unwrap();
    }
}

#[test]
fn watches_are_cut_within_a_line_after_a_number_of_events() {
    let world = World::start();
    world.server.faults().cut_watches_after(3..=3);
    let mut watch = watched(&world);
    create(&world, 10);
    let (events, end) = watch.rest();
    assert_eq!((events.len(), end), (3, Next::Cut));
    assert_eq!(world.server.faults().done()["cut_watches_after"], 1);
    let mut again = world.watch(&format!("{PODS}?watch=1&resourceVersion=3"));
    assert_eq!(again.event_text(), "ADDED q003 4", "and it can be resumed");
}

#[test]
fn all_watches_can_be_cut_now() {
    let world = with_pods(1);
    let mut watch = watched(&world);
    assert_eq!(watch.event_text(), "ADDED p000 1");
    world.server.faults().cut_now();
    assert_eq!(watch.next(Duration::from_secs(5)), Next::Cut);
    assert_eq!(watched(&world).event_text(), "ADDED p000 1", "later ones are not");
}

#[test]
fn events_double_swap_and_turn_to_garbage() {
    let world = World::start();
    world.server.faults().duplicate(1.0);
    let mut watch = watched(&world);
    create(&world, 1);
    assert_eq!([watch.event_text(), watch.event_text()], ["ADDED q000 1", "ADDED q000 1"]);
    world.server.faults().none();
    world.server.faults().reorder(1.0);
    world.server.faults().at_most(1);
    create_named(&world, &["r0", "r1", "r2"]);
    let swapped = [watch.event_text(), watch.event_text(), watch.event_text()];
    assert_eq!(swapped, ["ADDED r1 3", "ADDED r0 2", "ADDED r2 4"]);
    world.server.faults().at_most(1);
    create_named(&world, &["s0"]);
    assert_eq!(watch.event_text(), "ADDED s0 5", "without a next one it comes all the same");
    world.server.faults().none();
    world.server.faults().garbage(1.0);
    create_named(&world, &["t0"]);
    let Next::Line(line) = watch.next(Duration::from_secs(5)) else { panic!("no line") };
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_err(), "{line}");
    assert_eq!(watch.event_text(), "ADDED t0 6");
}

fn create_named(world: &World, names: &[&str]) {
    for name in names {
        world.store().create(pod(name)).unwrap();
    }
}

#[test]
fn versions_can_be_gone_in_both_ways() {
    let world = World::start();
    let mut watch = watched(&world);
    world.server.faults().gone(1.0);
    create(&world, 1);
    let (events, end) = watch.rest();
    assert_eq!((events[0]["object"]["code"].clone(), end), (410.into(), Next::End));
    world.server.faults().none();
    world.server.faults().gone_status(1.0);
    assert_eq!(watched(&world).status, 410);
    assert_eq!(world.get(PODS).status, 200, "lists are not watches");
}

#[test]
fn a_stalled_watch_is_silent_and_then_continues() {
    let options = berth_fake_apiserver::Options {
        bookmark_interval: Duration::from_millis(50),
        ..Default::default()
    };
    let world = World::start_with(options);
    let mut watch =
        world.watch(&format!("{PODS}?watch=1&resourceVersion=0&allowWatchBookmarks=true"));
    world.server.faults().stall(true);
    // Events that were being sent when the fault was set may still arrive.
    while watch.next(Duration::from_millis(200)) != Next::Silence {}
    create(&world, 2);
    assert_eq!(watch.next(SOON), Next::Silence);
    world.server.faults().stall(false);
    assert_eq!([watch.event_text(), watch.event_text()], ["ADDED q000 1", "ADDED q001 2"]);
    world.server.faults().skip_bookmarks(true);
    while watch.next(Duration::from_millis(200)) != Next::Silence {}
    assert_eq!(watch.next(SOON), Next::Silence);
    world.server.faults().none();
    assert_eq!(event_text(&watch.event()), "BOOKMARK  2");
}

#[test]
fn a_watch_can_time_out_without_its_closing_chunk() {
    let world = with_pods(1);
    world.server.faults().half_close(true);
    let mut watch = world.watch(&format!("{PODS}?watch=1&timeoutSeconds=1"));
    let (events, end) = watch.rest();
    assert_eq!((events.len(), end), (1, Next::Cut));
}

#[test]
fn chunks_and_requests_can_be_slow() {
    let world = with_pods(1);
    world.server.faults().latency(SOON);
    let began = Instant::now();
    assert_eq!(world.get(PODS).status, 200);
    assert!(began.elapsed() >= SOON);
    world.server.faults().none();
    world.server.faults().slow(SOON);
    let began = Instant::now();
    watched(&world).event_text();
    assert!(began.elapsed() >= SOON);
}

#[test]
fn requests_take_as_long_as_recorded_and_wait_for_their_turn() {
    let world = with_pods(1);
    let faults = world.server.faults();
    faults.recorded_latency(true);
    let began = Instant::now();
    assert_eq!(world.get(PODS).status, 200);
    assert!(began.elapsed() >= Duration::from_millis(6));
    faults.none();
    faults.latency(SOON);
    faults.capacity(1);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(world.get(PODS).status, 200));
        }
    });
    assert!(began.elapsed() >= 3 * SOON, "one after another");
    assert_eq!(faults.done()["latency"], 4);
}

#[test]
fn requests_can_be_refused_before_they_are_carried_out() {
    let world = with_pods(2);
    let faults = world.server.faults();
    faults.only("/binding");
    for status in [429, 500, 503] {
        faults.refuse(1.0, status);
        let refused = world.post(&format!("{PODS}/p000/binding"), &bind_body("p000", "n"));
        assert_eq!((refused.status, &refused.json["code"]), (status, &status.into()));
        let retry = (status == 429).then_some("1");
        assert_eq!(refused.header("retry-after"), retry);
    }
    assert!(world.store().bindings().is_empty());
    assert_eq!(world.get(PODS).status, 200, "others are not concerned");
    faults.none();
    assert_eq!(bind(&world, "p000", "n"), 201);
}

#[test]
fn a_response_can_be_lost_after_a_write() {
    let world = with_pods(1);
    world.server.faults().lose_answer(1.0);
    world.server.faults().at_most(1);
    let target = format!("{PODS}/p000/binding");
    let lost = world.request("POST", &target, "application/json", &bind_body("p000", "n"));
    assert!(lost.is_err());
    assert_eq!(world.store().bindings().len(), 1);
    assert_eq!(world.store().requests().last().map(|request| request.status), Some(201));
    assert_eq!(bind(&world, "p000", "n"), 409, "so the client has to read the pod");
}
