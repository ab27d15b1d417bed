//! `PlaceStream`: pipelined, in order, refusing entry by entry.

use std::time::Duration;

use berth_proto::berth_v1::{PlaceMode, PlaceStreamRequest, PlaceStreamResponse};
use berth_server::runtime::{Limits, ServerOptions};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Streaming};

use crate::grpc::world::{World, entry, options, outcome, pod, result};

async fn open(
    world: &mut World,
) -> (mpsc::Sender<PlaceStreamRequest>, Streaming<PlaceStreamResponse>) {
    let (requests, receiver) = mpsc::channel(64);
    let answers =
        world.placement.place_stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    (requests, answers)
}

fn request(sequence: u64, replicas: u32) -> PlaceStreamRequest {
    let entries = vec![entry(pod(&format!("p{sequence}"), "1"), replicas)];
    let mode = PlaceMode::Assume as i32;
    PlaceStreamRequest { sequence, entries, mode, ..PlaceStreamRequest::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_in_order() {
    let mut world = World::start().await;
    world.nodes(60, 100).await;
    let (requests, mut answers) = open(&mut world).await;
    // Small and large requests alternate: small ones are decided inline, large ones on the pool.
    let sender = tokio::spawn(async move {
        for sequence in 0..100 {
            let replicas = if sequence % 2 == 0 { 1 } else { 100 };
            requests.send(request(sequence, replicas)).await.unwrap();
        }
    });
    let mut n_placed = 0;
    for sequence in 0..100 {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!(answer.sequence, sequence);
        assert_eq!(answer.results.len(), if sequence % 2 == 0 { 1 } else { 100 });
        n_placed += answer.results.iter().filter(|r| outcome(result(r).unwrap()).is_ok()).count();
    }
    assert_eq!(answers.message().await.unwrap(), None);
    sender.await.unwrap();
    assert_eq!(n_placed, 5_050);
    assert_eq!(world.counts().await.n_assumed_pods, 5_050);
}

#[tokio::test]
async fn a_refused_request_does_not_end_the_stream() {
    let limits = Limits { max_pods_per_request: 10, ..Limits::default() };
    let mut world = World::with(ServerOptions { limits, ..options() }).await;
    world.nodes(1, 8).await;
    let (requests, mut answers) = open(&mut world).await;
    requests.send(request(1, 11)).await.unwrap();
    requests.send(PlaceStreamRequest { mode: 9, ..request(2, 1) }).await.unwrap();
    let mut missing = request(3, 1);
    missing.entries[0].pod = None;
    missing.entries.push(entry(pod("fine", "1"), 0));
    requests.send(missing).await.unwrap();
    requests
        .send(PlaceStreamRequest { sequence: 4, ..PlaceStreamRequest::default() })
        .await
        .unwrap();

    let refused = answers.message().await.unwrap().unwrap();
    assert_eq!(refused.results.len(), 1);
    let error = result(&refused.results[0]).unwrap_err();
    assert_eq!((error.code, error.field.as_str()), (Code::InvalidArgument as i32, "entries"));
    let refused = answers.message().await.unwrap().unwrap();
    assert_eq!(result(&refused.results[0]).unwrap_err().field, "mode");
    let mixed = answers.message().await.unwrap().unwrap();
    assert_eq!(result(&mixed.results[0]).unwrap_err().field, "pod");
    assert_eq!(outcome(result(&mixed.results[1]).unwrap()), Ok("n0"));
    let empty = answers.message().await.unwrap().unwrap();
    assert_eq!((empty.sequence, empty.results.len()), (4, 0));
}

#[tokio::test]
async fn a_deadline_ends_the_stream() {
    let mut world = World::start().await;
    world.nodes(1, 8).await;
    let (requests, receiver) = mpsc::channel(64);
    let mut call = Request::new(ReceiverStream::new(receiver));
    // Only the header is set, because the client's own timer would end the call before the server can.
    call.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
    let mut answers = world.placement.place_stream(call).await.unwrap().into_inner();
    requests.send(request(0, 1)).await.unwrap();
    assert!(answers.message().await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(400)).await;
    requests.send(request(1, 1)).await.unwrap();
    assert_eq!(answers.message().await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_assumed_for_a_client_that_vanished_is_given_back() {
    let mut world = World::start().await;
    world.nodes(60, 100).await;
    let channel = crate::grpc::world::connect(&world.server).await;
    let mut client =
        berth_proto::berth_v1::placement_service_client::PlacementServiceClient::new(channel);
    let (requests, receiver) = mpsc::channel(64);
    let answers = client.place_stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    // The answers are never read, and are large enough that most of them wait on the server.
    for sequence in 0..40 {
        requests.send(request(sequence, 100)).await.unwrap();
    }
    let cluster = world.cluster.clone();
    let n_assumed = async || {
        let request = berth_proto::berth_v1::GetClusterRequest::default();
        cluster.clone().get_cluster(request).await.unwrap().into_inner().n_assumed_pods
    };
    crate::grpc::world::eventually("some are assumed", async || n_assumed().await >= 1_000).await;
    let before = n_assumed().await;
    drop((requests, answers, client));
    // Answers that have left the server for the client's buffers count as delivered.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let after = n_assumed().await;
    println!("{before} assumed before, {after} after");
    assert!(after <= 4_000);
}
