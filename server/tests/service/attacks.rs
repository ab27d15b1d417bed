//! What one caller can do to others, each way once: messages that are too much, connections that are never used, streams
//! that outlive their credentials, pages of other sites. The queues' turns have their tests beside them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::sync_request::Message;
use berth_proto::berth_v1::{
    BatchEntry, DeltaBatch, GetClusterRequest, PlaceBatchRequest, PlaceMode, PlaceRequest,
    SyncRequest,
};
use berth_proto::core_v1::{Container, Taint, TopologySpreadConstraint};
use berth_server::runtime::{LoadLimits, Server, ServerOptions};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::http2::{self, DATA, PING, frame};
use crate::roles::http::ask;
use crate::roles::world::{PATIENCE, TOKENS, World, by, node, pod};

/// The field of a refused request.
fn field(status: &Status) -> String {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    details.bad_request().unwrap().field_violations[0].field.clone()
}

#[tokio::test]
async fn long_lists_are_refused_before_they_are_decoded() {
    let world = World::with_nodes().await;
    let mut wide = pod("wide");
    wide.spec.as_mut().unwrap().containers = vec![Container::default(); 1_001];
    let mut spread = pod("spread");
    spread.spec.as_mut().unwrap().topology_spread_constraints =
        vec![TopologySpreadConstraint::default(); 1_001];
    for (pod, expected) in
        [(wide, "pod.spec.containers"), (spread, "pod.spec.topologySpreadConstraints")]
    {
        let request = PlaceRequest { pod: Some(pod.into()), ..PlaceRequest::default() };
        let refused = world.placement().place(by("reader", request)).await.unwrap_err();
        assert_eq!(field(&refused), expected);
        assert!(refused.message().contains("has more than 1000 elements"), "{refused:?}");
    }
    let entries = vec![BatchEntry::default(); 100_001];
    let request = PlaceBatchRequest { entries, ..PlaceBatchRequest::default() };
    let refused = world.placement().place_batch(by("reader", request)).await.unwrap_err();
    assert_eq!(field(&refused), "entries");
    let mut tainted = node("tainted");
    tainted.spec.get_or_insert_default().taints = vec![Taint::default(); 1_001];
    let refused = world.apply("feeder", [Change::UpsertNode(tainted)]).await.unwrap_err();
    assert_eq!(field(&refused), "deltas.upsertNode.spec.taints");
    world.place("reader", "still-served", PlaceMode::DryRun, "").await.unwrap();
}

async fn metric(server: &Server, name: &str) -> f64 {
    let reply = ask(server.http_address(), "GET /metrics", "").await;
    let value = reply.body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no `{name}`"))
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never came true: {what}");
}

/// A server that asks nobody, on which one connection may hold half of 64 MiB.
async fn open_server(load: LoadLimits) -> Server {
    let mut options = ServerOptions::default();
    options.limits.load = load;
    let server = Server::start(options).await.unwrap();
    server.freshness().note_applied();
    server
}

fn connect(server: &Server) -> TcpStream {
    let mut connection = TcpStream::connect(server.grpc_address()).unwrap();
    connection.write_all(http2::PREFACE).unwrap();
    connection.write_all(&http2::initial_window(1 << 20)).unwrap();
    connection
}

/// Messages that announce 14 MiB and never come whole: what has come of them is counted, and given back.
#[tokio::test]
async fn messages_that_do_not_come_whole_are_counted() {
    let max_buffered_bytes = 64 << 20;
    let server = open_server(LoadLimits { max_buffered_bytes, ..LoadLimits::default() }).await;
    let mut connection = connect(&server);
    // A field that no message has, and its length.
    let message =
        [&[0, 0, 0xe0, 0, 0][..], &[0xfa, 0xff, 0x01, 0xff, 0xff, 0xff, 0x06], &[7; 9_000]];
    for stream in [1, 3, 5, 7] {
        let whole = http2::request(stream, "/berth.v1.PlacementService/Place", &());
        let headers = &whole[..whole.len() - 14];
        connection.write_all(headers).unwrap();
        connection.write_all(&frame(DATA, 0, stream, &message.concat())).unwrap();
    }
    let taken = async || metric(&server, "berth_buffered_bytes ").await;
    eventually("each is counted", async || taken().await == 4.0 * f64::from(16 << 10)).await;
    drop(connection);
    eventually("its bytes are given back", async || taken().await == 0.0).await;
}

#[tokio::test]
async fn strangers_send_a_few_bytes() {
    let world = World::with_nodes().await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(world.channel.clone());
    let check = |n: usize| tonic_health::pb::HealthCheckRequest { service: "x".repeat(n) };
    let refused = health.check(check(2_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(health.check(check(900)).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn unused_connections_make_room() {
    let server = open_server(LoadLimits { max_connections: 4, ..LoadLimits::default() }).await;
    let mut unused: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
    eventually("all slots are taken", async || {
        metric(&server, "berth_connections{protocol=\"grpc\"} ").await == 4.0
    })
    .await;
    let uri = format!("http://{}", server.grpc_address());
    for _ in 0..2 {
        let placement = async {
            let mut client = PlacementServiceClient::connect(uri.clone()).await?;
            let request = PlaceRequest { pod: Some(pod("p").into()), ..PlaceRequest::default() };
            Ok::<_, tonic::transport::Error>((client.place(request).await, client))
        };
        let (placed, _client) = tokio::time::timeout(PATIENCE, placement).await.unwrap().unwrap();
        placed.unwrap();
    }
    // The oldest went first.
    unused[0].set_read_timeout(Some(PATIENCE)).unwrap();
    let ended = std::io::copy(&mut unused[0], &mut std::io::sink());
    assert!(ended.is_ok_and(|n_bytes| n_bytes < 1_000));
    let name = "berth_connections_cut_total{protocol=\"grpc\",reason=\"displaced\"} ";
    assert!(metric(&server, name).await >= 1.0);
}

#[tokio::test]
async fn a_flood_of_pings_is_cut() {
    let server = open_server(LoadLimits::default()).await;
    let mut connection = connect(&server);
    connection.set_nonblocking(true).unwrap();
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(1_000);
    let flood = async {
        let mut answers = vec![0; 1 << 16];
        loop {
            for outcome in [connection.write(&pings), connection.read(&mut answers)] {
                match outcome {
                    Ok(0) => return,
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return,
                    Ok(_) | Err(_) => {}
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, flood).await.unwrap();
    let name = "berth_connections_cut_total{protocol=\"grpc\",reason=\"control_frames\"} ";
    assert_eq!(metric(&server, name).await, 1.0);
}

/// A stream does not outlive its token: its next message changes nothing, and it ends.
#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::start().await;
    let (messages, requests) = tokio::sync::mpsc::channel(1);
    let add = |name: &str| {
        let delta = berth_proto::berth_v1::Delta { change: Some(Change::UpsertNode(node(name))) };
        let batch = DeltaBatch { deltas: vec![delta], position: 0 };
        SyncRequest { message: Some(Message::Batch(batch)) }
    };
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    messages.send(add("before")).await.unwrap();
    let answers = world.cluster().sync(by("feeder", requests)).await.unwrap();
    let mut answers = answers.into_inner();
    answers.message().await.unwrap().unwrap();
    let without = TOKENS.replace("token-of-feeder", "token-of-another");
    std::fs::write(world.path("tokens.new"), without).unwrap();
    std::fs::rename(world.path("tokens.new"), world.path("tokens.csv")).unwrap();
    world.server.reload_credentials();
    let ended = tokio::time::timeout(PATIENCE, answers.message()).await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended:?}");
    // The message may find the stream closed.
    drop(messages.send(add("after")).await);
    let mut cluster = world.cluster();
    let asked = cluster.get_cluster(by("reader", GetClusterRequest::default())).await;
    assert_eq!(asked.unwrap().into_inner().n_nodes, 1);
}

#[tokio::test]
async fn pages_of_other_sites_are_not_answered() {
    let server = open_server(LoadLimits::default()).await;
    let address = server.http_address();
    let ask = async |request: &str, host: &str, headers: &str| {
        let text = format!(
            "{request} HTTP/1.1\r\n{host}Content-Length: 0\r\nConnection: close\r\n{headers}\r\n"
        );
        tokio::task::spawn_blocking(move || {
            let mut connection = TcpStream::connect(address).unwrap();
            connection.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
        })
        .await
        .unwrap()
    };
    let own = "Host: 127.0.0.1:7421\r\n";
    assert_eq!(ask("GET /metrics", own, "").await, 200);
    assert_eq!(ask("GET /metrics", "Host: evil.example\r\n", "").await, 403);
    assert_eq!(ask("GET /metrics", own, "Origin: http://evil.example\r\n").await, 403);
    assert_eq!(ask("GET /livez", &own.repeat(2), "").await, 400);
    assert_eq!(ask("POST /extender/filter", own, "Content-Type: text/plain\r\n").await, 415);
    assert_eq!(ask("POST /v1/assumed/release", own, "").await, 400, "nothing is changed");
}
