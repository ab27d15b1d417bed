//! SIGTERM under load: accepted calls are answered and are in the ledger and the audit log, the others are clearly
//! refused, and the process ends successfully.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{AcquireIdentityRequest, GetIdentityRequest, PlaceMode, PlaceRequest};
use berth_proto::core_v1;
use serde_json::json;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::served::{PATIENCE, Served, serve};

const N_CLIENTS: usize = 8;
const AUDIT_LOG: &str = "audit.log";

/// Starts a server of one large node, with its ledger and its audit log in `directory`.
fn start(directory: &Path) -> Served {
    let cluster = directory.join("cluster.yaml");
    let node =
        "kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4000, pods: 100000}}\n";
    std::fs::write(&cluster, node).unwrap();
    let served = Served::start(
        serve()
            // Nothing is refused for load here, however slow the machine.
            .args(["--max-queue-time", "10m", "--drain-grace-period", "1m"])
            .arg("--cluster")
            .arg(cluster)
            .arg("--ledger")
            .arg(directory.join("ledger"))
            .arg("--audit-log")
            .arg(directory.join(AUDIT_LOG)),
    );
    served.wait_for("loaded 1 nodes");
    served
}

async fn connect(served: &Served) -> Channel {
    Channel::from_shared(served.url.clone()).unwrap().connect().await.unwrap()
}

fn pod(name: &str) -> core_v1::Pod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn identity(client: usize, i: usize) -> AcquireIdentityRequest {
    AcquireIdentityRequest {
        namespace: "default".to_owned(),
        name: format!("web-{client}-{i}"),
        uid: format!("uid-{client}-{i}"),
        actor: "test".to_owned(),
        ..AcquireIdentityRequest::default()
    }
}

/// Makes one call after another until one fails; returns the granted tokens and the error.
async fn load(channel: Channel, client: usize, n_answered: Arc<AtomicUsize>) -> (Vec<u64>, Status) {
    let mut lifecycle = LifecycleServiceClient::new(channel.clone());
    let mut placement = PlacementServiceClient::new(channel);
    let mut tokens = Vec::new();
    loop {
        let i = tokens.len();
        match lifecycle.acquire_identity(identity(client, i)).await {
            Ok(granted) => tokens.push(granted.into_inner().token),
            Err(status) => return (tokens, status),
        }
        let request = PlaceRequest {
            pod: Some(pod(&format!("p-{client}-{i}")).into()),
            mode: PlaceMode::Assume as i32,
            ..PlaceRequest::default()
        };
        if let Err(status) = placement.place(request).await {
            return (tokens, status);
        }
        n_answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of successful calls of a method in the audit log.
fn n_audited(directory: &Path, method: &str) -> usize {
    let text = std::fs::read_to_string(directory.join(AUDIT_LOG)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["method"] == method && line["code"] == "OK").count()
}

/// Whether the server refused a call or never began it. The client reports the latter for a call that it had not sent
/// when the connection was closed, for one that it sent after the last stream of the server's GOAWAY frame, and for one
/// that it sent because it was slow to close its side. The audit log shows whether the call was begun nevertheless.
fn is_refused_or_unsent(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        Code::Cancelled => status.message() == "operation was canceled",
        Code::Internal => format!("{status:?}").contains("GoAway(b\"\", NO_ERROR, Remote)"),
        Code::Unknown => {
            let status = format!("{status:?}");
            ["Io, Kind(ConnectionReset)", "Io, Custom { kind: BrokenPipe"]
                .iter()
                .any(|cause| status.contains(cause))
        }
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_is_answered_kept_and_audited() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path());
    let n_answered = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for client in 0..N_CLIENTS {
        let load = load(connect(&running).await, client, n_answered.clone());
        clients.push(tokio::spawn(load));
    }
    let started = Instant::now();
    while n_answered.load(Ordering::Relaxed) <= 10 * N_CLIENTS {
        assert!(started.elapsed() < PATIENCE, "the calls are not answered:\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.signal("-TERM");
    let mut granted = Vec::new();
    for client in clients {
        let ended = tokio::time::timeout(PATIENCE, client).await.expect("a call hangs");
        let (tokens, status) = ended.unwrap();
        assert!(is_refused_or_unsent(&status), "{status:?}");
        granted.push(tokens);
    }
    let (status, log) = tokio::task::spawn_blocking(|| running.wait()).await.unwrap();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("drained"), "{log}");
    assert!(!log.contains("the grace period ended"), "{log}");
    let n_granted: usize = granted.iter().map(Vec::len).sum();
    assert_eq!(
        n_audited(directory.path(), "/berth.v1.LifecycleService/AcquireIdentity"),
        n_granted
    );
    let n_placed = n_answered.load(Ordering::Relaxed);
    assert_eq!(n_audited(directory.path(), "/berth.v1.PlacementService/Place"), n_placed);

    let running = start(directory.path());
    let mut lifecycle = LifecycleServiceClient::new(connect(&running).await);
    for (client, tokens) in granted.iter().enumerate() {
        for (i, token) in tokens.iter().enumerate() {
            let AcquireIdentityRequest { namespace, name, uid, .. } = identity(client, i);
            let request = GetIdentityRequest { namespace, name };
            let kept = lifecycle.get_identity(request).await.unwrap().into_inner().record.unwrap();
            assert_eq!((kept.holder_uid, kept.token), (uid, *token));
        }
    }
    running.signal("-TERM");
    assert_eq!(running.wait().0, Some(0));
}
