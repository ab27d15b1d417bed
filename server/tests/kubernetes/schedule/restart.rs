//! A scheduler that is killed leaves only its writes to the API server behind.

use crate::schedule::world::{World, fast_options, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_goes_on_where_the_first_was_killed() {
    let world = World::new().await;
    for i in 0..20 {
        world.node(&format!("n{i}"), 10);
    }
    for i in 0..200 {
        world.pod(&format!("p{i}"), "1");
    }
    world.api.faults().only("/binding");
    world.api.faults().latency(std::time::Duration::from_millis(40));
    world.api.faults().lose_answer(0.2);
    for n_bound in [20, 60, 120] {
        let instance = world.start(fast_options()).await;
        until("some are bound", || world.n_bound() >= n_bound).await;
        instance.kill();
    }
    let _instance = world.start(fast_options()).await;
    until("all are bound", || world.n_bound() == 200).await;
    world.check_bindings();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_instance_finishes_what_it_has_begun() {
    let world = World::new().await;
    world.node("n1", 64);
    world.api.faults().only("/binding");
    world.api.faults().latency(std::time::Duration::from_millis(300));
    for i in 0..10 {
        world.pod(&format!("p{i}"), "1");
    }
    let instance = world.start(fast_options()).await;
    // It is not enough that the pods have left the queue: nothing has begun for a pod until it is decided.
    until("all are being bound", || world.n_faults("latency") == 10).await;
    instance.stop().await;
    let n_bound = world.n_bound();
    assert_eq!(n_bound, 10, "what was begun is ended");
    world.check_bindings();
}
