//! What holds for a call whatever its body: methods, paths, deadlines, load, pages of other sites, request ids.

use std::net::SocketAddr;

use berth_server::runtime::{Limits, LoadLimits, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::world::{JSON, ask, post, server, server_with};

/// Sends bytes and returns the response as text.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn pod(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name},
           "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
    .to_string()
}

#[tokio::test]
async fn only_post_to_a_known_path_is_a_call() {
    let server = server().await;
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let reply = ask(server.http_address(), &format!("{method} /v1/place"), "", b"").await;
        assert_eq!(reply.status, 405, "{method}");
        assert!(reply.head.contains("allow: post"), "{}", reply.head);
        assert!(!reply.head.contains("access-control"), "{}", reply.head);
    }
    for path in ["/v1/nothing", "/v1/place/", "/v1/lifecycle/Nothing"] {
        let reply = post(&server, path, JSON, "{}").await;
        assert_eq!((reply.status, &*reply.error().0), (404, "NOT_FOUND"), "{path}");
    }
    let metrics = ask(server.http_address(), "GET /metrics", "", b"").await.body;
    assert!(
        !metrics.contains("berth_grpc_calls_total{method=\"/berth.v1.PlacementService/Place\"")
    );
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let server = server().await;
    let body = pod("p");
    for header in [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        let headers = format!("Content-Type: {JSON}\r\n{header}\r\n");
        let request = "POST /v1/place?mode=assume";
        let reply = ask(server.http_address(), request, &headers, body.as_bytes()).await;
        assert_eq!((reply.status, &*reply.error().0), (403, "PERMISSION_DENIED"), "{header}");
    }
    let headers = format!(
        "Content-Type: {JSON}\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"
    );
    let reply =
        ask(server.http_address(), "POST /v1/place?mode=assume", &headers, body.as_bytes()).await;
    assert_eq!(reply.json()["decision"]["placement"]["assumed"], true, "{}", reply.body);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let server = server().await;
    let reply = post(&server, "/v1/place?timeout=0s", JSON, &pod("p")).await;
    assert_eq!((reply.status, &*reply.error().0), (504, "DEADLINE_EXCEEDED"), "{}", reply.body);
    let reply = post(&server, "/v1/place?timeout=60", JSON, &pod("p")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    // The limit holds while the body arrives.
    let head = "POST /v1/place?timeout=300ms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Content-Length: 100\r\nConnection: close\r\n\r\n{";
    let reply = raw(server.http_address(), head.as_bytes()).await;
    assert!(reply.starts_with("HTTP/1.1 504 "), "{reply}");
}

#[tokio::test]
async fn too_many_calls_are_refused_before_their_bodies_are_read() {
    let load = LoadLimits { max_concurrent_calls: 0, ..LoadLimits::default() };
    let limits = Limits { load, ..Limits::default() };
    let server = server_with(ServerOptions { limits, ..ServerOptions::default() }).await;
    let head = "POST /v1/place HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Content-Length: 1000000\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    let reply = raw(server.http_address(), head.as_bytes()).await;
    assert!(reply.starts_with("HTTP/1.1 429 "), "{reply}");
    assert!(reply.to_ascii_lowercase().contains("\r\nretry-after: 2\r\n"), "{reply}");
    assert!(reply.contains("\"code\":\"RESOURCE_EXHAUSTED\""), "{reply}");
}

#[tokio::test]
async fn a_named_request_happens_once() {
    let server = server().await;
    let headers = format!("Content-Type: {JSON}\r\nberth-request-id: r-1\r\n");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = "POST /v1/place?mode=assume";
        let reply = ask(server.http_address(), request, &headers, pod("p").as_bytes()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        answers.push(reply);
    }
    assert_eq!(answers[0].body, answers[1].body);
    assert!(!answers[0].head.contains("berth-replayed"), "{}", answers[0].head);
    assert!(answers[1].head.contains("berth-replayed: true"), "{}", answers[1].head);
    let request = "POST /v1/place?mode=assume";
    let reply = ask(server.http_address(), request, &headers, pod("q").as_bytes()).await;
    assert_eq!((reply.status, &*reply.error().0), (400, "FAILED_PRECONDITION"));
    let reply = ask(server.http_address(), request, &headers, b"{}{").await;
    assert_eq!((reply.status, &*reply.error().1), (400, "mode"), "{}", reply.body);
    // Without a name, the pod has its place already.
    let reply = post(&server, "/v1/place?mode=assume", JSON, &pod("p")).await;
    assert_eq!((reply.status, &*reply.error().0), (409, "ALREADY_EXISTS"), "{}", reply.body);
}

#[tokio::test]
async fn calls_are_counted_under_their_rpc() {
    let server = server().await;
    post(&server, "/v1/place", JSON, &pod("p")).await;
    post(&server, "/v1/place", JSON, "{").await;
    post(&server, "/v1/lifecycle/qos-class", JSON, &pod("p")).await;
    let metrics = ask(server.http_address(), "GET /metrics", "", b"").await.body;
    for (method, code, n) in [
        ("PlacementService/Place", "OK", 1),
        ("PlacementService/Place", "INVALID_ARGUMENT", 1),
        ("LifecycleService/QosClass", "OK", 1),
    ] {
        let line = format!(
            "berth_grpc_calls_total{{method=\"/berth.v1.{method}\",code=\"{code}\"}} {n}\n"
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let answer: Value = post(&server, "/v1/lifecycle/qos-class", JSON, &pod("p")).await.json();
    assert_eq!(answer["qosClass"], "Burstable");
}
