//! A server with small limits, a way to keep its workers busy, and its metrics.

use std::cell::Cell;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use berth_engine::{BatchRequest, Policy, TieBreak};
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{
    ApplyRequest, BatchEntry, Delta, GetClusterRequest, PlaceBatchRequest, PlaceMode,
};
use berth_proto::core_v1;
use berth_server::runtime::{Limits, LoadLimits, Server, ServerOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The time after which a wait fails: no step takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) channel: Channel,
    pub(crate) placement: PlacementServiceClient<Channel>,
    pub(crate) cluster: ClusterServiceClient<Channel>,
}

/// Limits that no call reaches; a test lowers the one that it checks.
pub(crate) fn unlimited() -> LoadLimits {
    LoadLimits { max_queue_time: 10 * PATIENCE, ..LoadLimits::default() }
}

impl World {
    /// Starts a server with one node that has room for all pods.
    pub(crate) async fn start(load: LoadLimits) -> World {
        let limits = Limits { load, ..Limits::default() };
        let server = Server::start(ServerOptions {
            limits,
            tie_break: TieBreak::Lexicographic,
            ..ServerOptions::default()
        })
        .await
        .unwrap();
        let channel = connect(&server).await;
        let mut world = World {
            placement: PlacementServiceClient::new(channel.clone())
                .max_decoding_message_size(256 << 20),
            cluster: ClusterServiceClient::new(channel.clone()),
            channel,
            server,
        };
        let node = json!({
            "metadata": {"name": "n0"},
            "status": {"allocatable": {"cpu": "1000000", "memory": "64Ti", "pods": "1000000"}},
        });
        let node = serde_json::from_value(node).unwrap();
        let deltas = vec![Delta { change: Some(Change::UpsertNode(node)) }];
        world.cluster.apply(ApplyRequest { deltas }).await.unwrap();
        world
    }

    /// Holds the lock of the cluster, so that all changes wait until the lock is released.
    pub(crate) fn hold(&self) -> Holder {
        let cluster = self.server.cluster().clone();
        let (held, is_held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let pods = [cluster.compile_pod(&pod("holder")).unwrap()];
            let is_first = Cell::new(true);
            // Called while the lock is held.
            let cancelled = || {
                if is_first.take() {
                    held.send(()).unwrap();
                    released.recv_timeout(2 * PATIENCE).ok();
                }
                false
            };
            cluster.place_batch(&BatchRequest {
                pods: &pods,
                policy: &Policy::default(),
                tie_break: TieBreak::Lexicographic,
                assume: true,
                gang: None,
                cancelled: &cancelled,
                now: None,
            });
        });
        is_held.recv().unwrap();
        Holder { release, thread }
    }

    pub(crate) async fn n_assumed(&mut self) -> u32 {
        let counts = self.cluster.get_cluster(GetClusterRequest::default()).await.unwrap();
        counts.into_inner().n_assumed_pods
    }

    /// The value of one series, such as `berth_admission_waiting{lane="decision"}`.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let text = self.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let line = line.unwrap_or_else(|| panic!("no `{series}` in {text}"));
        line.trim().parse().unwrap()
    }

    async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.server.http_address()).await.unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Waits until no call is in flight; a call still is for a moment after its client has the response.
    pub(crate) async fn until_idle(&self) {
        for lane in ["quick", "decision"] {
            self.until(&format!("berth_admission_in_flight{{lane=\"{lane}\"}}"), |n| n == 0.0)
                .await;
        }
    }

    /// Waits until a series has a value.
    pub(crate) async fn until(&self, series: &str, is_so: impl Fn(f64) -> bool) {
        eventually(series, async || is_so(self.metric(series).await)).await;
    }
}

pub(crate) async fn connect(server: &Server) -> Channel {
    let uri = format!("http://{}", server.grpc_address());
    Channel::from_shared(uri).unwrap().connect().await.unwrap()
}

/// The held lock that writes wait for.
pub(crate) struct Holder {
    release: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Releases the lock; the pod `holder` stays assumed.
    pub(crate) fn release(self) {
        self.release.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

pub(crate) fn pod(name: &str) -> core_v1::Pod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]},
    });
    serde_json::from_value(pod).unwrap()
}

/// A batch of one pod, assumed on a thread of the decision pool.
pub(crate) fn batch(name: &str) -> PlaceBatchRequest {
    PlaceBatchRequest {
        entries: vec![BatchEntry { pod: Some(pod(name).into()), replicas: 0 }],
        mode: PlaceMode::Assume as i32,
        ..PlaceBatchRequest::default()
    }
}

pub(crate) fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Checks that a call was refused for load, with a delay for its retry.
pub(crate) fn assert_overloaded(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = status.get_error_details();
    let retry_after = details.retry_info().and_then(|info| info.retry_delay);
    assert!(retry_after.is_some_and(|delay| delay > Duration::ZERO), "{status:?}");
}

/// Tries until `condition` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let trying = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, trying).await;
    assert!(came.is_ok(), "never came true: {what}");
}
