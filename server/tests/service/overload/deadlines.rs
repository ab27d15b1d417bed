//! Deadlines of the caller and of the server: the call is answered, its placements are undone, its worker is free
//! again.

use std::time::Duration;

use berth_proto::berth_v1::GetClusterRequest;
use berth_server::runtime::LoadLimits;
use tonic::{Code, Request};

use crate::overload::world::{World, batch, unlimited};

const IN_FLIGHT: &str = "berth_admission_in_flight{lane=\"decision\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_late_is_given_back_and_frees_its_worker() {
    let mut world = World::start(unlimited()).await;
    let holder = world.hold();
    // The client enforces the deadline too; whichever of the two is first ends the call.
    for i in 0..20 {
        let mut request = Request::new(batch(&format!("late-{i}")));
        request.metadata_mut().insert("grpc-timeout", "20m".parse().unwrap());
        let status = world.placement.place_batch(request).await.unwrap_err();
        let codes = [Code::DeadlineExceeded, Code::ResourceExhausted, Code::Cancelled];
        assert!(codes.contains(&status.code()), "{status:?}");
    }
    // A client that disappears during its call.
    let mut client = world.placement.clone();
    let gone = tokio::spawn(async move { client.place_batch(batch("gone")).await });
    world.until(IN_FLIGHT, |n| n == 1.0).await;
    gone.abort();
    world.until(IN_FLIGHT, |n| n == 0.0).await;
    holder.release();
    world.placement.place_batch(batch("next")).await.unwrap();
    // The assumed pods of the holder and of `next`; those of the other calls were given back.
    let counted = world.cluster.clone();
    crate::overload::world::eventually("what nobody waits for is given back", async || {
        let counts = counted.clone().get_cluster(GetClusterRequest::default()).await.unwrap();
        counts.into_inner().n_assumed_pods == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_a_deadline_has_the_servers() {
    let limits = LoadLimits { max_call_time: Duration::from_secs(1), ..unlimited() };
    let mut world = World::start(limits).await;
    let holder = world.hold();
    let status = world.placement.place_batch(batch("p")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "the call took longer than the server's limit of 1s");
    holder.release();
}
