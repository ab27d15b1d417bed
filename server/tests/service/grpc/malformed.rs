//! Bytes that are not a request: the status code says whose fault it is, and other calls are not affected.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{ExplainRequest, PlaceMode, PlaceResponse};
use berth_server::runtime::{Limits, ServerOptions};
use serde_json::json;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::grpc::world::{World, options, outcome, pod, pod_with};

/// A number where every request of Berth has a message.
#[derive(Clone, PartialEq, prost::Message)]
struct Garbage {
    #[prost(uint64, tag = "1")]
    number: u64,
}

async fn send_garbage(channel: Channel, path: &'static str) -> Status {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<Garbage, PlaceResponse>::default();
    client
        .unary(Request::new(Garbage { number: 7 }), PathAndQuery::from_static(path), codec)
        .await
        .unwrap_err()
}

#[tokio::test]
async fn bytes_that_do_not_decode_are_the_callers_fault() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    for path in [
        "/berth.v1.PlacementService/Place",
        "/berth.v1.PlacementService/PlaceBatch",
        "/berth.v1.PlacementService/Explain",
        "/berth.v1.ClusterService/Apply",
        "/berth.v1.ClusterService/Sync",
        "/berth.v1.PreemptionService/Preempt",
        "/berth.v1.PreemptionService/ListCandidates",
        "/berth.v1.SessionService/Apply",
        "/berth.v1.SessionService/Commit",
        "/berth.v1.SessionService/Close",
    ] {
        let status = send_garbage(world.channel.clone(), path).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status:?}");
        assert!(
            status.message().starts_with("the message cannot be decoded: "),
            "{path}: {status:?}"
        );
    }
    assert_eq!(outcome(&world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap()), Ok("n0"));
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let world = World::start().await;
    for path in ["/berth.v1.PlacementService/Guess", "/nobody.v1.Service/Call"] {
        let status = send_garbage(world.channel.clone(), path).await;
        assert_eq!(
            (status.code(), status.message().to_owned()),
            (Code::Unimplemented, format!("this server has no method `{path}`"))
        );
    }
}

#[tokio::test]
async fn a_long_name_does_not_break_the_answer() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    let long = "x\n".repeat(500_000);
    let asks = pod_with("p", "1", &json!({"spec": {"schedulerName": long}}));
    let status = world.place(asks, PlaceMode::DryRun).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(!status.message().contains('\n') && status.message().len() < 1_010, "{status:?}");
    let request = ExplainRequest {
        pod: Some(pod("p", "1")),
        node_names: vec![long],
        ..ExplainRequest::default()
    };
    let status = world.placement.explain(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(crate::grpc::world::violation(&status).0, "node_names[0]");
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_by_size() {
    let limits = Limits { max_message_bytes: 10_000, ..Limits::default() };
    let mut world = World::with(ServerOptions { limits, ..options() }).await;
    world.nodes(1, 4).await;
    let large =
        pod_with("p", "1", &json!({"metadata": {"annotations": {"a": "x".repeat(20_000)}}}));
    let status = world.place(large.clone(), PlaceMode::DryRun).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "the message is larger than the limit of 10000 bytes");
    let deltas =
        vec![berth_proto::berth_v1::Delta { change: Some(Change::UpsertPod(large.clone())) }];
    let request = berth_proto::berth_v1::SyncRequest {
        message: Some(berth_proto::berth_v1::sync_request::Message::Batch(
            berth_proto::berth_v1::DeltaBatch { deltas, position: 0 },
        )),
    };
    let mut answers = world.cluster.sync(tokio_stream::iter([request])).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(outcome(&world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap()), Ok("n0"));
}
