//! Faults of watches: whatever the API server does, the cluster ends up with exactly the server's objects.

use std::sync::Arc;
use std::time::Duration;

use berth_fake_apiserver::{FakeApiServer, Faults, Options};

use crate::kube::change::{Random, change};
use crate::kube::compare::{holds, stored};
use crate::kube::observer::Books;
use crate::kube::world::{World, options, until};

const N_CHANGES: usize = 400;

/// Makes random changes under a fault. The cluster must be right when the fault is over and, if `is_lasting`, already
/// while it lasts.
async fn survive(
    seed: u64,
    options: Options,
    misbehave: impl Fn(&Faults),
    is_lasting: bool,
) -> World {
    let books = Arc::new(Books::default());
    let world = World::start(options, Some(books.clone())).await;
    let (store, faults, mut random) = (world.store(), world.api.faults(), Random::new(seed));
    (0..N_CHANGES / 4).for_each(|_| change(store, &mut random));
    faults.seed(seed);
    misbehave(faults);
    for i in 0..N_CHANGES {
        change(store, &mut random);
        if i % 8 == 0 {
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }
    if is_lasting {
        until(|| holds(world.server.cluster(), &stored(store))).await;
    }
    faults.none();
    world.ready().await;
    until(|| holds(world.server.cluster(), &stored(store))).await;
    until(|| books.agree(store)).await;
    world
}

/// The sum of the feed's counters with this name and label.
async fn met(world: &World, metric: &str, label: &str) -> f64 {
    let text = world.http("/metrics").await;
    let lines = text.lines().filter(|line| line.starts_with(metric) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_faults_nothing_is_listed_twice() {
    let world = survive(1, options(), |_| {}, true).await;
    assert_eq!(met(&world, "berth_feed_relists_total", "").await, 0.0);
    assert_eq!(world.server.cluster().snapshot().n_contradictions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_are_cut_are_resumed() {
    let world = survive(2, options(), |faults| faults.cut_watches_after(1..=12), true).await;
    assert!(met(&world, "berth_feed_errors_total", "reason=\"cut\"").await > 5.0);
    assert_eq!(met(&world, "berth_feed_relists_total", "").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_twice_count_once() {
    let world = survive(3, options(), |faults| faults.duplicate(0.3), true).await;
    assert_eq!(met(&world, "berth_feed_relists_total", "").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_out_of_order_cost_a_list() {
    let world = survive(4, options(), |faults| faults.reorder(0.1), false).await;
    assert!(met(&world, "berth_feed_relists_total", "reason=\"out-of-order\"").await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_gone_cost_a_list() {
    let world = survive(5, options(), |faults| faults.gone(0.05), true).await;
    assert!(met(&world, "berth_feed_relists_total", "reason=\"gone\"").await > 0.0);
    let misbehave = |faults: &Faults| {
        faults.gone_status(0.5);
        faults.cut_watches_after(1..=10);
    };
    let world = survive(6, options(), misbehave, true).await;
    assert!(met(&world, "berth_feed_relists_total", "reason=\"gone\"").await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_bookmarks_is_opened_again() {
    survive(7, options(), |faults| faults.skip_bookmarks(true), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_is_waited_for() {
    survive(8, options(), |faults| faults.slow(Duration::from_millis(15)), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_an_end_are_resumed() {
    survive(9, options(), |faults| faults.half_close(true), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_says_nothing_is_given_up() {
    let world = survive(10, options(), |faults| faults.stall(true), false).await;
    world.api.faults().stall(true);
    let mut random = Random::new(10);
    (0..50).for_each(|_| change(world.store(), &mut random));
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    assert!(met(&world, "berth_feed_errors_total", "reason=\"silent\"").await > 0.0);
    assert!(world.server.freshness().staleness().unwrap() > Duration::from_secs(1));
    world.api.faults().none();
    until(|| holds(world.server.cluster(), &stored(world.store()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_costs_a_list() {
    let world = survive(11, options(), |faults| faults.garbage(0.05), true).await;
    assert!(met(&world, "berth_feed_relists_total", "reason=\"garbage\"").await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_waited_out() {
    for (seed, status) in [(12, 429), (13, 500), (14, 503)] {
        let misbehave = |faults: &Faults| {
            faults.refuse(0.4, status);
            faults.cut_watches_after(5..=40);
        };
        let world = survive(seed, options(), misbehave, false).await;
        assert!(met(&world, "berth_feed_errors_total", "reason=\"refused\"").await > 0.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_streaming_lists_is_read_in_pages() {
    let plain = || Options { streaming_lists: false, ..options() };
    let misbehave = |faults: &Faults| {
        faults.gone(0.02);
        faults.cut_watches_after(1..=30);
    };
    let world = survive(15, plain(), misbehave, true).await;
    let requests = world.store().requests();
    assert!(requests.iter().any(|request| request.target.contains("limit=500")));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_is_survived() {
    for seed in 20..24 {
        let misbehave = |faults: &Faults| {
            faults.cut_watches_after(1..=30);
            faults.duplicate(0.1);
            faults.reorder(0.03);
            faults.gone(0.01);
            faults.gone_status(0.05);
            faults.garbage(0.01);
            faults.half_close(true);
            faults.refuse(0.05, 503);
        };
        survive(seed, options(), misbehave, false).await;
    }
}

/// The restored server has its own history, whose versions are lower than those that the feed has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restored_from_a_backup_is_believed() {
    let world = World::start(options(), None).await;
    let mut random = Random::new(30);
    (0..N_CHANGES).for_each(|_| change(world.store(), &mut random));
    world.ready().await;
    until(|| holds(world.server.cluster(), &stored(world.store()))).await;
    // Bookmarks bring every kind past the backup's versions, because a version of both histories would be ambiguous.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let World { api, server, feed } = world;
    let (address, objects) = (api.address(), stored(api.store()));
    drop(api);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        holds(server.cluster(), &objects).is_ok(),
        "nothing is forgotten while the server is away"
    );
    let restored = FakeApiServer::start(Options { listen: address, ..options() }).await.unwrap();
    // A watch from a version that the server has not reached gets no events (recording 07), and no bookmarks either.
    restored.faults().skip_bookmarks(true);
    let kept = objects.iter().enumerate().filter(|(i, _)| i % 3 != 0);
    for (_, object) in kept {
        let mut object = object.clone();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        restored.store().create(object).unwrap();
    }
    until(|| holds(server.cluster(), &stored(restored.store()))).await;
    restored.faults().none();
    (0..N_CHANGES).for_each(|_| change(restored.store(), &mut random));
    until(|| holds(server.cluster(), &stored(restored.store()))).await;
    drop(feed);
}
