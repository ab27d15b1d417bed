//! SIGTERM under load: what was accepted is answered, on the disk and in the audit log, the rest is clearly refused, and the process
//! ends well.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{AcquireIdentityRequest, GetIdentityRequest, PlaceMode, PlaceRequest};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::world::{PATIENCE, eventually, pod};

const N_CLIENTS: usize = 8;
const AUDIT_LOG: &str = "audit.log";

struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    grpc: SocketAddr,
}

impl Running {
    fn start(directory: &Path) -> Running {
        let cluster = directory.join("cluster.yaml");
        let node =
            "kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4000, pods: 100000}}\n";
        std::fs::write(&cluster, node).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["serve", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"])
            // Nothing is refused for load here, however slow the machine.
            .args([
                "--worker-threads",
                "2",
                "--max-queue-time",
                "10m",
                "--drain-grace-period",
                "1m",
            ])
            .arg("--cluster")
            .arg(cluster)
            .arg("--ledger")
            .arg(directory.join("ledger"))
            .arg("--audit-log")
            .arg(directory.join(AUDIT_LOG))
            .env_remove("BERTH_LOG")
            .env_remove("BERTH_SHARED")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("loaded 1 nodes") {
            assert!(log.read_line(&mut lines).unwrap() > 0, "it ended: {lines}");
        }
        let grpc = lines.split("grpc=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let grpc = grpc.unwrap_or_else(|| panic!("{lines}")).parse().unwrap();
        Running { child, log, grpc }
    }

    async fn connect(&self) -> Channel {
        let uri = format!("http://{}", self.grpc);
        Channel::from_shared(uri).unwrap().connect().await.unwrap()
    }

    fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Its status and the rest of its log.
    fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (status.code(), rest)
    }
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

/// Calls, one after the other, until one is not answered; gives the tokens that it was granted, and what ended it.
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

/// How many calls of a method went well, by the audit log.
fn n_audited(directory: &Path, method: &str) -> usize {
    let text = std::fs::read_to_string(directory.join(AUDIT_LOG)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["method"] == method && line["code"] == "OK").count()
}

/// Refused by the server, or never begun by it: so the client says of what it still had to send when the connection was closed, of
/// what it sent behind the last stream that the server's farewell took, and, where it was long in closing its side, of what it sent
/// after that. Whether it was begun all the same, the audit log tells.
fn is_refused_or_unsent(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        Code::Cancelled => status.message() == "operation was canceled",
        Code::Internal => format!("{status:?}").contains("GoAway(b\"\", NO_ERROR, Remote)"),
        Code::Unknown => format!("{status:?}").contains("Io, Kind(ConnectionReset)"),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_is_answered_kept_and_audited() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path());
    let n_answered = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for client in 0..N_CLIENTS {
        let load = load(running.connect().await, client, n_answered.clone());
        clients.push(tokio::spawn(load));
    }
    eventually("the load is on", async || n_answered.load(Ordering::Relaxed) > 10 * N_CLIENTS)
        .await;
    running.terminate();
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

    let running = Running::start(directory.path());
    let mut lifecycle = LifecycleServiceClient::new(running.connect().await);
    for (client, tokens) in granted.iter().enumerate() {
        for (i, token) in tokens.iter().enumerate() {
            let AcquireIdentityRequest { namespace, name, uid, .. } = identity(client, i);
            let request = GetIdentityRequest { namespace, name };
            let kept = lifecycle.get_identity(request).await.unwrap().into_inner().record.unwrap();
            assert_eq!((kept.holder_uid, kept.token), (uid, *token));
        }
    }
    running.terminate();
    assert_eq!(running.wait().0, Some(0));
}
