//! Slow readers: a response that a client does not read ends its connection, and nothing else.

use std::time::Duration;

use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{BatchEntry, GetClusterRequest, PlaceMode, PlaceStreamRequest};
use berth_server::runtime::LoadLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::http2::{PREFACE, initial_window, request};
use crate::overload::world::{PATIENCE, World, connect, pod, unlimited};

const SLOW_READERS: &str = "berth_slow_readers_total";

fn limits() -> LoadLimits {
    LoadLimits { slow_reader_timeout: Duration::from_secs(1), ..unlimited() }
}

/// `GetCluster` from a client whose flow-control window has no room for any byte of the answer.
fn request_without_window() -> Vec<u8> {
    let call = "/berth.v1.ClusterService/GetCluster";
    [PREFACE.to_vec(), initial_window(0), request(1, call, &GetClusterRequest::default())].concat()
}

/// Without the limit, a client that never reads its response of a few bytes would count as a call in flight for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_disconnected() {
    let world = World::start(limits()).await;
    let in_flight = "berth_admission_in_flight{lane=\"quick\"}";
    world.until(in_flight, |n| n == 0.0).await;
    let mut stream = TcpStream::connect(world.server.grpc_address()).await.unwrap();
    stream.write_all(&request_without_window()).await.unwrap();
    let mut received = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut received)).await;
    assert!(end.is_ok(), "the connection is still open");
    assert_eq!(world.metric(SLOW_READERS).await, 1.0);
    world.until(in_flight, |n| n == 0.0).await;
    // Other clients are not affected.
    world.cluster.clone().get_cluster(GetClusterRequest::default()).await.unwrap();
}

/// A stream whose answers accumulate unread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_read_is_ended_by_an_error() {
    let mut world = World::start(limits()).await;
    let channel = connect(&world.server).await;
    let mut client = PlacementServiceClient::new(channel);
    let (requests, receiver) = mpsc::channel(64);
    let mut answers =
        client.place_stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let sending = tokio::spawn(async move {
        for sequence in 0_u64.. {
            let entries =
                vec![BatchEntry { pod: Some(pod(&format!("s{sequence}")).into()), replicas: 500 }];
            let mode = PlaceMode::Assume as i32;
            let request =
                PlaceStreamRequest { sequence, entries, mode, ..PlaceStreamRequest::default() };
            if requests.send(request).await.is_err() {
                return;
            }
        }
    });
    world.until(SLOW_READERS, |n| n == 1.0).await;
    tokio::time::timeout(PATIENCE, sending).await.expect("the stream goes on").unwrap();
    let mut n_told = 0;
    let end = loop {
        match answers.message().await {
            Ok(Some(answer)) => n_told += answer.results.len(),
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    assert!(end.is_some(), "an end without an error would say that all was answered");
    world.until("berth_admission_in_flight{lane=\"stream\"}", |n| n == 0.0).await;
    // Responses on their way may be lost with the connection; those that the client has read are valid.
    assert!(world.n_assumed().await as usize >= n_told);
}
