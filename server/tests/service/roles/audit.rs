//! The audit log: a line for each change, none for calls that only read.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, ApplyRequest, Delta, DeltaBatch, PlaceMode, PlaceRequest,
    PreemptRequest, SessionServiceCommitRequest, SessionServiceOpenRequest, SyncRequest,
    sync_request,
};
use berth_server::audit::{AuditOptions, AuditTarget};
use berth_server::runtime::{Server, ServerOptions, StartError};
use serde_json::{Value, json};
use tonic::{Code, Request};

use crate::roles::http::ask;
use crate::roles::world::{PATIENCE, World, by, node};

async fn with_file(name: &str) -> World {
    let name = name.to_owned();
    World::with(|options, directory| {
        let target = Some(AuditTarget::File(directory.path().join(name)));
        ServerOptions { audit: AuditOptions { target, ..AuditOptions::default() }, ..options }
    })
    .await
}

/// Stops the server; returns the lines of the audit file without the members that differ between runs.
async fn lines(world: World) -> Vec<Value> {
    let World { server, channel, directory } = world;
    // The last calls end with their connection.
    drop(channel);
    server.shutdown().await;
    let text = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let members = line.as_object_mut().unwrap();
        assert!(members.remove("time").unwrap().as_str().unwrap().ends_with('Z'));
        assert!(members.remove("elapsedMs").unwrap().as_f64().unwrap() >= 0.0);
        assert!(members.remove("peer").unwrap().as_str().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(members.remove("means"), Some("token".into()));
        line
    };
    text.lines().map(line).collect()
}

fn with_id<T>(id: &str, mut request: Request<T>) -> Request<T> {
    request.metadata_mut().insert("berth-request-id", id.parse().unwrap());
    request
}

fn line_of(user: &str, method: &str, code: &str) -> Value {
    json!({
        "user": user,
        "groups": [format!("berth:{user}")],
        "roles": [user],
        "method": format!("/berth.v1.{method}"),
        "code": code,
    })
}

#[tokio::test]
async fn every_change_has_a_line_and_reading_has_none() {
    let world = with_file("audit.log").await;
    let deltas = || vec![Delta { change: Some(Change::UpsertNode(node("n0"))) }];
    let apply = with_id("first", by("feeder", ApplyRequest { deltas: deltas() }));
    world.cluster().apply(apply).await.unwrap();
    // The next three calls change nothing that others see.
    world.place("reader", "p", PlaceMode::DryRun, "").await.unwrap();
    let open = by("scheduler", SessionServiceOpenRequest {});
    let session_id = world.session().open(open).await.unwrap().into_inner().session_id;
    world.place("scheduler", "p", PlaceMode::Assume, &session_id).await.unwrap();
    world.place("scheduler", "q", PlaceMode::Assume, "").await.unwrap();
    // Calls that were denied or malformed have lines too.
    world.place("reader", "p", PlaceMode::Assume, "").await.unwrap_err();
    world.apply("reader", []).await.unwrap_err();
    let nominate = PreemptRequest { nominate: true, ..PreemptRequest::default() };
    world.preemption().preempt(by("scheduler", nominate)).await.unwrap_err();
    let commit = by("scheduler", SessionServiceCommitRequest { session_id, ..Default::default() });
    // Meanwhile another pod has taken room on the node.
    let status = world.session().commit(commit).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let batch = || {
        let batch = DeltaBatch { deltas: deltas(), position: 0 };
        SyncRequest { message: Some(sync_request::Message::Batch(batch)) }
    };
    let stream = by("feeder", tokio_stream::iter([batch(), batch(), batch()]));
    let mut answers = world.cluster().sync(stream).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let acquire = AcquireIdentityRequest::default();
    world.lifecycle().acquire_identity(by("reader", acquire.clone())).await.unwrap_err();
    world.lifecycle().acquire_identity(by("lifecycle", acquire)).await.unwrap_err();
    // A call without credentials has no line.
    world.placement().place(PlaceRequest::default()).await.unwrap_err();

    let mut first = line_of("feeder", "ClusterService/Apply", "OK");
    first["requestId"] = "first".into();
    let mut sync = line_of("feeder", "ClusterService/Sync", "OK");
    sync["changes"] = 3.into();
    let expected = [
        first,
        line_of("scheduler", "PlacementService/Place", "OK"),
        line_of("reader", "PlacementService/Place", "PERMISSION_DENIED"),
        line_of("reader", "ClusterService/Apply", "PERMISSION_DENIED"),
        line_of("scheduler", "PreemptionService/Preempt", "INVALID_ARGUMENT"),
        line_of("scheduler", "SessionService/Commit", "FAILED_PRECONDITION"),
        sync,
        line_of("reader", "LifecycleService/AcquireIdentity", "PERMISSION_DENIED"),
        line_of("lifecycle", "LifecycleService/AcquireIdentity", "INVALID_ARGUMENT"),
    ];
    assert_eq!(lines(world).await, expected);
}

#[tokio::test]
async fn a_bind_has_a_line() {
    let world = with_file("audit.log").await;
    let address = world.server.http_address();
    for user in ["reader", "scheduler"] {
        let headers =
            format!("Authorization: Bearer token-of-{user}\r\nBerth-Request-Id: by-{user}\r\n");
        ask(address, "POST /extender/filter", &headers).await;
        ask(address, "POST /extender/bind", &headers).await;
    }
    let bind = |user: &str, code: &str| {
        let mut line = line_of(user, "", code);
        line["method"] = "/extender/bind".into();
        line["requestId"] = format!("by-{user}").into();
        line
    };
    // The server has no cluster yet.
    let expected = [bind("reader", "PERMISSION_DENIED"), bind("scheduler", "UNAVAILABLE")];
    assert_eq!(lines(world).await, expected);
}

/// While the file is on a full disk, changes are refused before they begin, reading goes on, and the probe says why.
#[tokio::test]
async fn nothing_changes_that_cannot_be_audited() {
    let world = World::with(|options, directory| {
        let path = directory.path().join("audit.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let target = Some(AuditTarget::File(path));
        ServerOptions { audit: AuditOptions { target, ..AuditOptions::default() }, ..options }
    })
    .await;
    // The full disk is noticed only at the first line.
    world.feed([Change::UpsertNode(node("n0"))]).await;
    let address = world.server.http_address();
    let waiting = async {
        loop {
            let reply = ask(address, "GET /readyz", "").await;
            if reply.status == 503 {
                return reply.body;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let report = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    assert!(
        report.contains("[-]audit failed: the audit log cannot be written: No space left"),
        "{report}"
    );
    let generation = world.server.cluster().snapshot().generation();
    let applied = world.apply("feeder", [Change::UpsertNode(node("n1"))]).await.unwrap_err();
    let assumed = world.place("scheduler", "p", PlaceMode::Assume, "").await.unwrap_err();
    let acquire = by("lifecycle", AcquireIdentityRequest::default());
    let acquired = world.lifecycle().acquire_identity(acquire).await.unwrap_err();
    for status in [applied, assumed, acquired] {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains("the audit log cannot be written"), "{status:?}");
    }
    assert_eq!(world.server.cluster().snapshot().generation(), generation);
    assert!(world.place("reader", "p", PlaceMode::DryRun, "").await.is_ok());
    let headers = "Authorization: Bearer token-of-scheduler\r\n";
    assert_eq!(ask(address, "POST /extender/bind", headers).await.status, 503);
    let (path, room) = (world.path("audit.log"), world.path("room"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&room, &path).unwrap();
    let waiting = async {
        while world.place("scheduler", "p", PlaceMode::Assume, "").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    let lines: Vec<_> = lines(world).await.iter().map(|line| line["method"].clone()).collect();
    let expected = ["/berth.v1.ClusterService/Apply", "/berth.v1.PlacementService/Place"];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_start_says_which_file_cannot_be_used() {
    let target = Some(AuditTarget::File("/nonexistent/audit.log".into()));
    let audit = AuditOptions { target, ..AuditOptions::default() };
    let error = Server::start(ServerOptions { audit, ..ServerOptions::default() }).await.err();
    let error = error.unwrap();
    assert!(matches!(error, StartError::Audit(_)), "{error}");
    assert!(error.to_string().contains("`/nonexistent/audit.log`: No such file"), "{error}");
}
