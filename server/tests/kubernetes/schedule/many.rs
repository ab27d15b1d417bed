//! Many pods on many nodes, while watches are cut, responses are lost, events are repeated and the server is busy.

use std::time::{Duration, Instant};

use berth_fake_apiserver::cluster::add_synthetic;
use berth_server::scheduler::SchedulerOptions;

use crate::schedule::world::{World, fast_options, until_within};

const N_NODES: usize = 5_000;
const N_PODS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn all_are_placed_once_and_no_node_overflows() {
    let world = World::new().await;
    add_synthetic(world.api.store(), N_NODES, N_PODS, "berth").expect("objects");
    let faults = world.api.faults();
    faults.seed(20);
    faults.cut_watches_after(50..=1_500);
    faults.lose_answer(0.02);
    faults.duplicate(0.02);
    faults.refuse(0.01, 429);
    let began = Instant::now();
    let options = SchedulerOptions { max_batch: 256, ..fast_options() };
    let instance = world.start(options).await;
    let mut n_bound = 0;
    until_within(Duration::from_secs(600), "all are bound", || {
        n_bound = world.api.store().bindings().len();
        n_bound == N_PODS
    })
    .await;
    println!(
        "{n_bound} pods in {:.1} s; faults: {:?}",
        began.elapsed().as_secs_f64(),
        faults.done()
    );
    assert_eq!(world.n_bound(), N_PODS);
    world.check_bindings();
    let done = world.api.faults().done();
    for fault in ["cut_watches_after", "lose_answer", "duplicate", "refuse"] {
        assert!(done.get(fault).is_some_and(|n| *n > 0), "no {fault} among {done:?}");
    }
    faults.none();
    until_within(Duration::from_secs(60), "the feed has all of them", || {
        instance.scheduler.counts() == Default::default()
    })
    .await;
    assert_eq!(instance.server.cluster().snapshot().n_assumed(), 0, "every pod was confirmed");
    assert_eq!(instance.server.cluster().snapshot().n_pods(), N_PODS);
}
