//! Callers other than kube-scheduler: malformed requests, floods, slow senders. Each gets an answer or is disconnected,
//! and the next caller is served.

use std::time::Duration;

use berth_server::extender::ExtenderOptions;
use berth_server::runtime::{Server, ServerOptions};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::client::{post, read, send};
use super::world::{self, node, options, pod, running};

const VERBS: [&str; 4] = ["filter", "prioritize", "preempt", "bind"];

async fn small(max_body_bytes: usize) -> Server {
    let extender = ExtenderOptions { max_body_bytes, ..options().extender };
    let server = Server::start(ServerOptions { extender, ..options() }).await.unwrap();
    world::replace_cluster(&server, &[node("n0", "4")], &[]);
    server
}

async fn check_alive(server: &Server) {
    let request = json!({"Pod": pod("p", "1"), "NodeNames": ["n0"]}).to_string();
    let reply = post(server.http_address(), "filter", request.as_bytes()).await;
    assert_eq!((reply.status, &reply.json()["NodeNames"]), (200, &json!(["n0"])));
}

#[tokio::test]
async fn nothing_is_answered_before_a_cluster_is_known() {
    let server = world::start().await;
    for verb in VERBS {
        let reply = post(server.http_address(), verb, b"{}").await;
        assert_eq!((reply.status, &*reply.error()), (503, "no feed has delivered a cluster yet"));
    }
}

#[tokio::test]
async fn garbage_is_an_error_that_says_what_is_wrong() {
    let server = small(1 << 20).await;
    let deep_pod = format!(r#"{{"Pod":{}"#, r#"{"spec":"#.repeat(100_000));
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    let bodies: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "EOF"),
        (b"<html>".to_vec(), "expected value"),
        (b"[]".to_vec(), "expected an object"),
        (b"\xff\xfe{}".to_vec(), "expected value"),
        (b"{\"Pod\":{\"metadata\":{\"name\":\"\xff\"}}}".to_vec(), "invalid unicode"),
        (b"{\"Pod\":".to_vec(), "EOF"),
        (b"{} {}".to_vec(), "trailing characters"),
        (deep_pod.into_bytes(), "`Pod`"),
        (deep.into_bytes(), "must be set"),
        (vec![0; 1000], "expected value"),
        (b"{\"\x1b[31m\":1,\"Pod\":{}}".to_vec(), "control character"),
    ];
    for verb in VERBS {
        let status = if matches!(verb, "filter" | "bind") { 200 } else { 400 };
        for (body, expected) in &bodies {
            let reply = post(server.http_address(), verb, body).await;
            assert_eq!(reply.status, status, "{verb}");
            let error = reply.error();
            let is_of_pod = *expected == "`Pod`" || *expected == "invalid unicode";
            // A bind request has the name of a pod, not the pod, and its body is short.
            let is_long = error.contains("has more than 65536 bytes");
            if !(verb == "bind" && (is_of_pod || is_long)) {
                assert!(error.contains(expected), "{verb}: {error}");
            }
            assert!(!error.chars().any(char::is_control), "{error:?}");
        }
    }
    check_alive(&server).await;
}

/// A pod that cannot be read is an error with the path of the field.
#[tokio::test]
async fn a_bad_pod_names_its_field() {
    let server = small(1 << 20).await;
    let mut bad = pod("p", "1");
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much".into();
    let mut other = pod("p", "1");
    other["spec"]["schedulerName"] = "gpu".into();
    for (pod, expected) in [
        (&bad, "`Pod"),
        (
            &other,
            "`Pod.spec.schedulerName`: no profile is called `gpu`; there is `default-scheduler`",
        ),
        (&json!({"metadata": {"name": "p"}}), "`Pod.spec`: is missing"),
    ] {
        let request = json!({"Pod": pod, "NodeNames": ["n0"]}).to_string();
        let reply = post(server.http_address(), "filter", request.as_bytes()).await;
        let error = reply.error();
        assert!(reply.status == 200 && error.starts_with(expected), "{error}");
        let reply = post(server.http_address(), "preempt", request.as_bytes()).await;
        assert!(matches!(reply.status, 400 | 422) && reply.error().starts_with(expected));
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = small(10_000).await;
    let address = server.http_address();
    let long = json!({"Pod": pod("p", "1"), "NodeNames": ["x".repeat(10_000)]}).to_string();
    let reply = post(address, "filter", long.as_bytes()).await;
    let text = "the body is larger than 10000 bytes; `extender.maxBodyBytes` raises the limit";
    assert_eq!((reply.status, &*reply.error()), (413, text));
    // A large `Content-Length` is refused without its body, and a large body without `Content-Length` is refused too.
    let head = "POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let announced = format!("{head}Content-Length: 99999999999\r\n\r\n");
    assert_eq!(send(address, announced.as_bytes()).await.unwrap().status, 413);
    let chunk = format!("{:x}\r\n{}\r\n", 4_000, "x".repeat(4_000));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(3));
    assert_eq!(send(address, chunked.as_bytes()).await.unwrap().status, 413);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let request = json!({"Pod": pod("p", "1"), "NodeNames": ["n0"]}).to_string();
    let (first, rest) = request.split_at(20);
    let chunked =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n", chunk(first), chunk(rest));
    assert_eq!(send(address, chunked.as_bytes()).await.unwrap().status, 200);
    check_alive(&server).await;
}

/// A bind request consists of four names, so a long one is not read.
#[tokio::test]
async fn a_long_bind_is_not_read() {
    let server = small(1 << 20).await;
    let request = json!({"PodName": "p", "Extra": "x".repeat(65_536)}).to_string();
    let reply = post(server.http_address(), "bind", request.as_bytes()).await;
    let text = "`ExtenderBindingArgs`: has more than 65536 bytes";
    assert_eq!((reply.status, &*reply.error()), (200, text));
    check_alive(&server).await;
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let server = small(1 << 20).await;
    let address = server.http_address();
    let ask = async |line: &str| {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        send(address, request.as_bytes()).await.unwrap().status
    };
    for verb in VERBS {
        for method in ["GET", "PUT", "DELETE"] {
            assert_eq!(ask(&format!("{method} /extender/{verb}")).await, 405);
        }
        assert_eq!(ask(&format!("POST /extender/{verb}/")).await, 404);
    }
    assert_eq!(ask("POST /extender").await, 404);
    assert_eq!(ask("POST /extender/reserve").await, 404);
}

/// Half-sent requests do not delay other callers.
#[tokio::test]
async fn dribbling_callers_are_passed_by() {
    let server = small(1 << 20).await;
    let mut held = Vec::new();
    for i in 0..50 {
        let mut connection = TcpStream::connect(server.http_address()).await.unwrap();
        let head = "POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{";
        connection.write_all(&head.as_bytes()[..head.len() - i % 30]).await.unwrap();
        held.push(connection);
    }
    tokio::time::timeout(Duration::from_secs(5), check_alive(&server)).await.unwrap();
    // A request that continues after a pause is answered.
    let request = json!({"Pod": pod("p", "1"), "NodeNames": ["n0"]}).to_string();
    let mut slow = TcpStream::connect(server.http_address()).await.unwrap();
    let head = format!(
        "POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        request.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    for part in request.as_bytes().chunks(40) {
        slow.write_all(part).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(read(slow).await.unwrap().status, 200);
}

/// Many callers at once, with names and with whole nodes, while the cluster changes: every answer follows from one of
/// its states.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_at_once_get_whole_answers() {
    let nodes: Vec<Value> = (0..300).map(|i| node(&format!("n{i}"), "4")).collect();
    let server = world::with(&nodes, &[]).await;
    let address = server.http_address();
    let names: Vec<&str> = nodes.iter().map(|n| n["metadata"]["name"].as_str().unwrap()).collect();
    let by_name = json!({"Pod": pod("p", "3"), "NodeNames": names}).to_string();
    let whole = json!({"Pod": pod("p", "3"), "Nodes": {"items": nodes}}).to_string();
    let callers = (0..8).map(|i| {
        let body = if i % 2 == 0 { by_name.clone() } else { whole.clone() };
        tokio::spawn(async move {
            for _ in 0..20 {
                let answer = post(address, "filter", body.as_bytes()).await.json();
                let n_kept =
                    answer["NodeNames"].as_array().or_else(|| answer["Nodes"]["items"].as_array());
                let n_failed = answer["FailedNodes"].as_object().unwrap().len();
                assert_eq!(n_kept.unwrap().len() + n_failed, 300);
                let scores = post(address, "prioritize", body.as_bytes()).await.json();
                assert_eq!(scores.as_array().unwrap().len(), 300);
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    for n in 0..40 {
        let pods: Vec<Value> =
            (0..n * 7 % 300).map(|i| running(&format!("r{i}"), "2", 0, &format!("n{i}"))).collect();
        world::replace_cluster(&server, &nodes, &pods);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let text = {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let reply = send(address, request).await.unwrap();
        String::from_utf8(reply.body).unwrap()
    };
    for expected in [
        "berth_extender_requests_total{verb=\"filter\",outcome=\"answered\"} 160",
        "berth_extender_requests_total{verb=\"prioritize\",outcome=\"answered\"} 160",
        "berth_extender_duration_seconds_count{verb=\"filter\"} 160",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}
