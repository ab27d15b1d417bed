//! Health, readiness, metrics and reflection; and a start that fails.

use std::net::SocketAddr;

use berth_proto::berth_v1::PlaceMode;
use berth_proto::berth_v1::delta::Change;
use berth_server::runtime::{Server, ServerOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::grpc::world::{World, bound, eventually, options, pod};

/// Status code and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) async fn health(channel: &tonic::transport::Channel, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn ready_once_a_feed_has_spoken() {
    let mut world = World::start().await;
    let http = world.server.http_address();
    assert_eq!(get(http, "/livez").await, (200, "ok".into()));
    assert_eq!(
        get(http, "/healthz?verbose").await,
        (200, "[+]ping ok\nhealthz check passed\n".into())
    );
    let (code, text) = get(http, "/readyz").await;
    assert_eq!(code, 503);
    assert_eq!(
        text,
        "[-]feed failed: no feed has delivered a cluster yet\n[+]contradictions ok\n[+]drain ok\nreadyz check failed\n"
    );
    assert_eq!(health(&world.channel, "").await, ServingStatus::NotServing);
    assert_eq!(
        health(&world.channel, "berth.v1.PlacementService").await,
        ServingStatus::NotServing
    );
    assert_eq!(health(&world.channel, "berth.v1.ClusterService").await, ServingStatus::Serving);

    world.nodes(1, 4).await;
    assert_eq!(get(http, "/readyz").await, (200, "ok".into()));
    let channel = world.channel.clone();
    eventually("health follows", async || health(&channel, "").await == ServingStatus::Serving)
        .await;
    for service in ["PlacementService", "PreemptionService", "SessionService"] {
        let name = format!("berth.v1.{service}");
        let channel = world.channel.clone();
        eventually("its health too", async || {
            health(&channel, &name).await == ServingStatus::Serving
        })
        .await;
    }
    let (code, text) = get(http, "/nothing").await;
    assert_eq!((code, text.starts_with("not found; there are /livez")), (404, true), "{text}");
}

#[tokio::test]
async fn contradictions_make_it_unready() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    world
        .apply([Change::UpsertPod(bound("p", "1", "n0")), Change::UpsertPod(bound("p", "1", "n1"))])
        .await;
    let (code, text) = get(world.server.http_address(), "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]contradictions failed: a feed has sent 1 contradiction;"), "{text}");
    let channel = world.channel.clone();
    eventually("health follows", async || health(&channel, "").await == ServingStatus::NotServing)
        .await;
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    world
        .apply([Change::UpsertPod(bound("p", "1", "n0")), Change::DeleteNode(String::new())])
        .await;
    world.place(pod("a", "1"), PlaceMode::Assume).await.unwrap();
    world.place(pod("b", "1"), PlaceMode::DryRun).await.unwrap();
    world.place(pod("c", "99"), PlaceMode::DryRun).await.unwrap();
    world.place(pod("", "1"), PlaceMode::DryRun).await.unwrap_err();
    let http = world.server.http_address();
    let (code, text) = get(http, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "berth_placements_total{outcome=\"assumed\"} 1",
        "berth_placements_total{outcome=\"placed\"} 1",
        "berth_placements_total{outcome=\"unschedulable\"} 1",
        "berth_placements_total{outcome=\"refused\"} 1",
        "berth_deltas_total{outcome=\"applied\"} 3",
        "berth_deltas_total{outcome=\"rejected\"} 1",
        "berth_cache_size{type=\"nodes\"} 2",
        "berth_cache_size{type=\"pods\"} 2",
        "berth_cache_size{type=\"assumed_pods\"} 1",
        "berth_pods{state=\"bound\"} 1",
        "berth_pods{state=\"assumed\"} 1",
        "berth_place_duration_seconds_count{method=\"Place\"} 3",
        "berth_grpc_calls_total{method=\"/berth.v1.PlacementService/Place\",code=\"OK\"} 3",
        "berth_grpc_calls_total{method=\"/berth.v1.PlacementService/Place\",code=\"INVALID_ARGUMENT\"} 1",
        "berth_grpc_calls_total{method=\"/berth.v1.ClusterService/Apply\",code=\"OK\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}

#[tokio::test]
async fn reflection_describes_the_services_and_kubernetes() {
    let world = World::start().await;
    let ask = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("berth.v1.PlacementService".into())),
        ask(MessageRequest::FileContainingSymbol("k8s.io.api.core.v1.Pod".into())),
        // Imports of the files above.
        ask(MessageRequest::FileByFilename("berth/v1/access.proto".into())),
        ask(MessageRequest::FileByFilename("google/protobuf/descriptor.proto".into())),
    ];
    let mut client = ServerReflectionClient::new(world.channel.clone());
    let mut answers =
        client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list of services")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "berth.v1.ClusterService",
        "berth.v1.LifecycleService",
        "berth.v1.PlacementService",
        "berth.v1.PreemptionService",
        "berth.v1.SessionService",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for _ in 0..4 {
        let answer = answers.message().await.unwrap().unwrap().message_response;
        assert!(matches!(answer, Some(MessageResponse::FileDescriptorResponse(_))), "{answer:?}");
    }
    let mut old =
        tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient::new(
            world.channel.clone(),
        );
    let request = tonic_reflection::pb::v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            ),
        ),
    };
    assert!(
        old.server_reflection_info(tokio_stream::iter([request]))
            .await
            .unwrap()
            .into_inner()
            .message()
            .await
            .is_ok()
    );
}

async fn start_error(options: ServerOptions) -> String {
    match Server::start(options).await {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_busy_port_is_named() {
    let world = World::start().await;
    let (grpc, http) = (world.server.grpc_address(), world.server.http_address());
    assert_eq!(
        start_error(ServerOptions { grpc_address: grpc, ..options() }).await,
        format!("cannot listen for gRPC on `{grpc}`: the address is already in use")
    );
    assert_eq!(
        start_error(ServerOptions { http_address: http, ..options() }).await,
        format!("cannot listen for HTTP on `{http}`: the address is already in use")
    );
}

#[tokio::test]
async fn one_address_for_both_is_said_to_be_so() {
    let world = World::start().await;
    let address = world.server.grpc_address();
    assert_eq!(
        start_error(ServerOptions { grpc_address: address, http_address: address, ..options() })
            .await,
        format!("gRPC and HTTP cannot both listen on `{address}`: give one of them another port")
    );
}

#[tokio::test]
async fn an_open_address_needs_leave() {
    let open: SocketAddr = "0.0.0.0:0".parse().unwrap();
    assert_eq!(
        start_error(ServerOptions { grpc_address: open, ..options() }).await,
        "refusing to listen for gRPC on `0.0.0.0:0`: anybody who reaches it could read along and ask everything; give it a certificate (`--tls-cert-file`, `--tls-private-key-file`) and a way to know callers (`--tls-client-ca-file` or `--token-file`); or use a loopback address, or `--insecure` behind a NetworkPolicy"
    );
    let server = Server::start(ServerOptions { grpc_address: open, insecure: true, ..options() })
        .await
        .unwrap();
    server.shutdown().await;
    let nowhere: SocketAddr = "192.0.2.1:0".parse().unwrap();
    let error =
        start_error(ServerOptions { grpc_address: nowhere, insecure: true, ..options() }).await;
    assert_eq!(error, "cannot listen for gRPC on `192.0.2.1:0`: this machine has no such address");
}
