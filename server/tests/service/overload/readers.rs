//! Slow readers: a response that a client does not read ends its connection, and nothing else.

use std::time::Duration;

use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{BatchEntry, GetClusterRequest, PlaceMode, PlaceStreamRequest};
use berth_server::runtime::LoadLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::overload::world::{PATIENCE, World, connect, pod, unlimited};

const SLOW_READERS: &str = "berth_slow_readers_total";

fn limits() -> LoadLimits {
    LoadLimits { slow_reader_timeout: Duration::from_secs(1), ..unlimited() }
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    frame.extend(payload);
    frame
}

/// A literal header without indexing (RFC 7541, section 6.2.2).
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend(text.bytes());
    }
    bytes
}

/// `GetCluster` from a client whose flow-control window has no room for any byte of the answer.
fn request_without_window() -> Vec<u8> {
    const SETTINGS: u8 = 4;
    const INITIAL_WINDOW_SIZE: u8 = 4;
    const HEADERS: u8 = 1;
    const DATA: u8 = 0;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let headers = [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":authority", "berth"),
        header(":path", "/berth.v1.ClusterService/GetCluster"),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ];
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]),
        frame(HEADERS, END_HEADERS, 1, &headers.concat()),
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ]
    .concat()
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
                vec![BatchEntry { pod: Some(pod(&format!("s{sequence}"))), replicas: 500 }];
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
