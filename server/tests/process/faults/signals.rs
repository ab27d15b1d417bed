//! Signals at every moment: while loading, idle, with streams open, with a call that never ends, and again.

use std::process::Command;
use std::time::{Duration, Instant};

use berth_client::Client;
use berth_proto::berth_v1::{ApplyRequest, PlaceResponse, PlaceStreamRequest, SyncRequest};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::served::{PATIENCE, Served, cluster_file, serve};

/// A call whose message never ends, in flight for as long as the server allows.
async fn endless_call(url: &str) -> tokio::task::JoinHandle<Result<(), Status>> {
    let channel = Endpoint::from_shared(url.to_owned()).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    tokio::spawn(async move {
        let path = PathAndQuery::from_static("/berth.v1.ClusterService/Apply");
        let codec = ProstCodec::<ApplyRequest, PlaceResponse>::default();
        let never = tonic::Request::new(tokio_stream::pending::<ApplyRequest>());
        grpc.client_streaming(never, path, codec).await.map(drop)
    })
}

/// Sends SIGTERM and waits until the server says that it drains, so that a later signal counts as another one.
fn drains(served: &Served) {
    served.signal("-TERM");
    served.wait_for("draining; another signal ends at once");
}

#[tokio::test]
async fn a_signal_while_loading_ends_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("cluster.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let served = Served::start(serve().arg("--cluster").arg(&pipe));
    assert_eq!(served.get("/readyz").await.0, 503);
    assert_eq!(served.get("/livez").await.0, 200);
    served.signal("-TERM");
    let (status, log) = served.wait();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("stopped while the cluster was being loaded"), "{log}");
}

#[test]
fn an_idle_server_ends_at_once() {
    let log = Served::start(&mut serve()).stop();
    assert!(log.contains("drained"), "{log}");
}

#[tokio::test]
async fn open_streams_end_with_unavailable_and_do_not_hold_up_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let served = Served::start(serve().args(["--cluster", &cluster, "--drain-grace-period", "1h"]));
    served.eventually("/readyz", |body| body == "ok").await;
    let client = Client::connect(&served.url, 1).await.unwrap();
    let (place, placing) = tokio::sync::mpsc::channel(1);
    place.send(PlaceStreamRequest { sequence: 7, ..Default::default() }).await.unwrap();
    let placing = tokio_stream::wrappers::ReceiverStream::new(placing);
    let mut placed = client.placement(0).place_stream(placing).await.unwrap().into_inner();
    assert_eq!(placed.message().await.unwrap().unwrap().sequence, 7);
    let (sync, syncing) = tokio::sync::mpsc::channel(1);
    sync.send(SyncRequest { message: Some(empty_batch()) }).await.unwrap();
    let syncing = tokio_stream::wrappers::ReceiverStream::new(syncing);
    let mut synced = client.cluster().sync(syncing).await.unwrap().into_inner();
    assert_eq!(synced.message().await.unwrap().unwrap().sequence, 0);
    served.signal("-TERM");
    let (placed, synced) = (placed.message().await, synced.message().await);
    assert_eq!(placed.unwrap_err().code(), Code::Unavailable);
    assert_eq!(synced.unwrap_err().code(), Code::Unavailable);
    drop((place, sync, client));
    let (status, log) = served.wait();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("drained"), "{log}");
}

fn empty_batch() -> berth_proto::berth_v1::sync_request::Message {
    berth_proto::berth_v1::sync_request::Message::Batch(Default::default())
}

#[tokio::test]
async fn a_call_that_does_not_end_is_cut_off_when_the_grace_period_is_over() {
    let served = Served::start(serve().args(["--drain-grace-period", "200ms"]));
    let call = endless_call(&served.url).await;
    served.eventually("/metrics", |_| true).await;
    drains(&served);
    let (status, log) = served.wait();
    assert_eq!(status, Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    assert!(call.await.unwrap().is_err());
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let mut served = Served::start(serve().args(["--drain-grace-period", "1h"]));
    let call = endless_call(&served.url).await;
    drains(&served);
    // Within half a second signals count as one, and two pending signals are one, so it is sent again and again.
    let start = Instant::now();
    while served.is_running() {
        assert!(start.elapsed() < PATIENCE, "it goes on:\n{}", served.log());
        tokio::time::sleep(Duration::from_millis(600)).await;
        served.signal("-TERM");
    }
    let (status, log) = served.wait();
    // The call may have been given up for being slow before the second signal came.
    let was_second = log.contains("ended by a second signal");
    assert_eq!(status, Some(i32::from(was_second)), "{log}");
    drop(call.await);
}

#[tokio::test]
async fn hangup_with_bad_files_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let served = Served::start(serve().args(["--cluster", &cluster]));
    served.eventually("/readyz", |body| body == "ok").await;
    for (what, bytes) in [("garbage", &b"\x00{[\xff"[..]), ("empty", b""), ("half", b"kind: Nod")] {
        std::fs::write(&cluster, bytes).unwrap();
        let n_before = served.log().matches("the cluster stays as it was: ").count();
        let start = Instant::now();
        while served.log().matches("the cluster stays as it was: ").count() == n_before {
            assert!(start.elapsed() < PATIENCE, "{what}: nothing is said:\n{}", served.log());
            served.signal("-HUP");
            // A signal that is repeated within half a second counts as the same one.
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        let client = Client::connect(&served.url, 1).await.unwrap();
        assert_eq!(client.get_cluster().await.unwrap().n_nodes, 1, "{what}");
        assert_eq!(served.get("/readyz").await, (200, "ok".to_owned()), "{what}");
    }
    std::fs::remove_file(&cluster).unwrap();
    let n_before = served.log().matches("the cluster stays as it was: ").count();
    let start = Instant::now();
    while served.log().matches("the cluster stays as it was: ").count() == n_before {
        assert!(start.elapsed() < PATIENCE, "nothing is said:\n{}", served.log());
        served.signal("-HUP");
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    served.stop();
}
