//! Calls beyond a limit are refused and never hang.

use std::time::Duration;

use berth_proto::berth_v1::{
    EvaluatePodsRequest, GetClusterRequest, GetFenceRequest, PlaceBatchResponse, PlaceRequest,
    lifecycle_service_client::LifecycleServiceClient,
};
use berth_server::runtime::LoadLimits;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::overload::world::{PATIENCE, World, assert_overloaded, batch, n_cores, pod, unlimited};

const WAITING: &str = "berth_admission_waiting{lane=\"decision\"}";
const IN_FLIGHT: &str = "berth_admission_in_flight{lane=\"decision\"}";
const REFUSED: &str = "berth_admission_total{lane=\"decision\",outcome=\"refused\"}";

/// Many more calls than may wait, while no worker makes progress: all calls without a worker are refused, health checks
/// and short calls are answered. Every call with a worker is answered, and the assumed pods are those of the responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_accepted_is_answered_and_the_rest_is_refused() {
    let n_calls = 300;
    let limits = LoadLimits { max_queue_time: Duration::from_millis(20), ..LoadLimits::default() };
    let mut world = World::start(limits).await;
    let holder = world.hold();
    let mut calls = JoinSet::new();
    for i in 0..n_calls {
        let mut client = world.placement.clone();
        calls.spawn(async move { client.place_batch(batch(&format!("p{i}"))).await });
    }
    for _ in 0..n_calls - n_cores() {
        let refused = tokio::time::timeout(PATIENCE, calls.join_next()).await;
        let refused = refused.expect("a call hangs").unwrap().unwrap();
        assert_overloaded(&refused.unwrap_err());
    }
    let mut health = HealthClient::new(world.channel.clone());
    health.check(HealthCheckRequest::default()).await.unwrap();
    world.cluster.get_cluster(GetClusterRequest::default()).await.unwrap();
    assert!(world.metric(REFUSED).await >= (n_calls - n_cores()) as f64);
    holder.release();
    let mut n_ok = 0;
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
        n_ok += 1;
    }
    assert_eq!(n_ok, n_cores());
    // The holder's pod is assumed too.
    assert_eq!(world.n_assumed().await as usize, n_ok + 1);
    world.until(WAITING, |n| n == 0.0).await;
    world.until(IN_FLIGHT, |n| n == 0.0).await;
}

/// Calls within the limit wait in a queue that metrics show, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_within_the_limit_waits() {
    let mut world = World::start(unlimited()).await;
    let holder = world.hold();
    let mut calls = JoinSet::new();
    for i in 0..100 {
        let mut client = world.placement.clone();
        calls.spawn(async move { client.place_batch(batch(&format!("p{i}"))).await });
    }
    world.until(WAITING, |n| n == (100 - n_cores()) as f64).await;
    holder.release();
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
    assert_eq!(world.n_assumed().await, 101);
    assert_eq!(world.metric(REFUSED).await, 0.0);
}

/// A call is refused for load before its message is decoded, so that even a malformed message is. However many such
/// messages were sent, the connection carries the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_comes_before_the_message_is_read() {
    let limits = LoadLimits { max_concurrent_calls: 1, ..unlimited() };
    let mut world = World::start(limits).await;
    let garbage = async |world: &World| {
        let mut client = tonic::client::Grpc::new(world.channel.clone());
        client.ready().await.unwrap();
        // Field 1 is a message there, and this text is not: its first byte has an invalid wire type.
        let request = GetClusterRequest { session_id: "\u{7f}".repeat(1 << 20) };
        let codec = tonic_prost::ProstCodec::<GetClusterRequest, PlaceBatchResponse>::default();
        let path = "/berth.v1.PlacementService/PlaceBatch".parse().unwrap();
        client.unary(Request::new(request), path, codec).await.unwrap_err()
    };
    world.until_idle().await;
    assert_eq!(garbage(&world).await.code(), Code::InvalidArgument);
    world.until_idle().await;
    let holder = world.hold();
    let mut client = world.placement.clone();
    let held = tokio::spawn(async move { client.place_batch(batch("held")).await });
    world.until(IN_FLIGHT, |n| n == 1.0).await;
    // Several times the amount that may be under way on a connection.
    for _ in 0..64 {
        assert_overloaded(&garbage(&world).await);
    }
    holder.release();
    held.await.unwrap().unwrap();
    world.until_idle().await;
    world.placement.place_batch(batch("next")).await.unwrap();
    world.until_idle().await;
    assert_eq!(world.n_assumed().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_bounded_in_number_and_never_keep_calls_out() {
    let limits = LoadLimits { max_open_streams: 2, ..unlimited() };
    let mut world = World::start(limits).await;
    let mut lifecycle = LifecycleServiceClient::new(world.channel.clone());
    let mut open = Vec::new();
    for _ in 0..2 {
        let (requests, receiver) = mpsc::channel::<EvaluatePodsRequest>(1);
        let answers = lifecycle.evaluate_pods(ReceiverStream::new(receiver)).await.unwrap();
        open.push((requests, answers));
    }
    let (_requests, receiver) = mpsc::channel::<EvaluatePodsRequest>(1);
    let refused = lifecycle.evaluate_pods(ReceiverStream::new(receiver)).await.unwrap_err();
    assert_overloaded(&refused);
    let request = PlaceRequest { pod: Some(pod("p").into()), ..PlaceRequest::default() };
    world.placement.place(request).await.unwrap();
    drop(open);
    world.until("berth_admission_in_flight{lane=\"stream\"}", |n| n == 0.0).await;
    let (_requests, receiver) = mpsc::channel::<EvaluatePodsRequest>(1);
    lifecycle.evaluate_pods(ReceiverStream::new(receiver)).await.unwrap();
}

/// The lanes have separate workers: waiting decisions do not cause a refusal of a call to the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_lane_leaves_the_others_alone() {
    let limits = LoadLimits { max_queue_time: Duration::from_millis(1), ..LoadLimits::default() };
    let world = World::start(limits).await;
    let holder = world.hold();
    let mut calls = JoinSet::new();
    for i in 0..50 {
        let mut client = world.placement.clone();
        calls.spawn(async move { client.place_batch(batch(&format!("p{i}"))).await });
    }
    world.until(REFUSED, |n| n > 0.0).await;
    let mut lifecycle = LifecycleServiceClient::new(world.channel.clone());
    let request = GetFenceRequest { node_name: "n0".to_owned() };
    let fence = lifecycle.get_fence(request).await;
    assert!(fence.as_ref().err().is_none_or(|e| e.code() != Code::ResourceExhausted), "{fence:?}");
    holder.release();
    while calls.join_next().await.is_some() {}
}
