//! Shutdown: calls in flight are finished, new calls are refused, calls that never end are cut off.

use std::time::Duration;

use berth_proto::berth_v1::{
    PlaceBatchRequest, PlaceStreamRequest, SessionServiceOpenRequest, SyncRequest,
};
use berth_server::runtime::{ServerOptions, Shutdown};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::grpc::probes::{get, health};
use crate::grpc::world::{World, entry, options, outcome, pod, result};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_is_answered() {
    let mut world = World::start().await;
    world.nodes(500, 1_000).await;
    let grpc = world.server.grpc_address();
    let mut client = world.placement.clone();
    let entries = vec![entry(pod("web", "1m"), 30_000)];
    let request = PlaceBatchRequest { entries, ..PlaceBatchRequest::default() };
    let call = tokio::spawn(async move { client.place_batch(request).await });
    // The call has reached the server once the pool works on it, which is not visible from outside, hence the short
    // wait.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let outcome_of_drain = world.server.shutdown().await;
    let results = call.await.unwrap().unwrap().into_inner().results;
    assert_eq!(results.len(), 30_000);
    assert!(results.iter().all(|r| outcome(result(r).unwrap()).is_ok()));
    assert_eq!(outcome_of_drain, Shutdown::Drained);
    assert!(tokio::net::TcpStream::connect(grpc).await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_with_unavailable_after_their_answers() {
    let mut world = World::start().await;
    world.nodes(1, 8).await;
    let (requests, receiver) = mpsc::channel(8);
    let mut placements =
        world.placement.place_stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let entries = vec![entry(pod("p", "1"), 1)];
    requests
        .send(PlaceStreamRequest { sequence: 5, entries, ..PlaceStreamRequest::default() })
        .await
        .unwrap();
    assert_eq!(placements.message().await.unwrap().unwrap().sequence, 5);
    let (_feed, receiver) = mpsc::channel::<SyncRequest>(8);
    let mut feed = world.cluster.sync(ReceiverStream::new(receiver)).await.unwrap().into_inner();

    let draining = tokio::spawn(world.server.shutdown());
    for status in [placements.message().await.unwrap_err(), feed.message().await.unwrap_err()] {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the server is draining")
        );
    }
    drop((requests, _feed));
    assert_eq!(draining.await.unwrap(), Shutdown::Drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_on_a_session_is_answered_before_the_session_is_dropped() {
    let mut world = World::start().await;
    world.nodes(500, 1_000).await;
    let request = SessionServiceOpenRequest {};
    let session_id = world.session.open(request).await.unwrap().into_inner().session_id;
    let mut client = world.placement.clone();
    let entries = vec![entry(pod("web", "1m"), 30_000)];
    let request = PlaceBatchRequest { entries, session_id, ..PlaceBatchRequest::default() };
    let call = tokio::spawn(async move { client.place_batch(request).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let outcome_of_drain = world.server.shutdown().await;
    assert_eq!(call.await.unwrap().unwrap().into_inner().results.len(), 30_000);
    assert_eq!(outcome_of_drain, Shutdown::Drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_drains_it_is_not_ready_and_health_watchers_see_it() {
    let mut world = World::start().await;
    world.nodes(500, 1_000).await;
    let (http, channel) = (world.server.http_address(), world.channel.clone());
    let mut watch = tonic_health::pb::health_client::HealthClient::new(channel)
        .watch(tonic_health::pb::HealthCheckRequest { service: String::new() })
        .await
        .unwrap()
        .into_inner();
    while watch.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    assert_eq!(health(&world.channel, "").await, ServingStatus::Serving);
    let draining = tokio::spawn(world.server.shutdown());
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    let (code, text) = get(http, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]drain failed: the server is draining"), "{text}");
    assert_eq!(get(http, "/livez").await.0, 200);
    assert_eq!(watch.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(draining.await.unwrap(), Shutdown::Drained);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlasts_the_grace_period_is_cut_off() {
    let mut world =
        World::with(ServerOptions { drain_grace_period: Duration::from_millis(1), ..options() })
            .await;
    world.nodes(500, 1_000).await;
    let mut client = world.placement.clone();
    let request = PlaceBatchRequest {
        entries: vec![entry(pod("web", "1m"), 90_000)],
        ..PlaceBatchRequest::default()
    };
    let call = tokio::spawn(async move { client.place_batch(request).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.server.shutdown().await, Shutdown::CutOff);
    call.abort();
}
