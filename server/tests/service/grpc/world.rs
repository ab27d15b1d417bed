//! A server on a free port, a client of each service, and objects made from JSON.

use std::time::Duration;

use berth_engine::TieBreak;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, BatchEntry, Decision, Delta, GetClusterRequest,
    GetClusterResponse, ListNodesRequest, ListPodsRequest, NodeSummary, PlaceError, PlaceMode,
    PlaceRequest, PlaceResult, PodKey, PodSummary, decision, place_result,
};
use berth_proto::core_v1;
use berth_server::runtime::{Limits, LoadLimits, Server, ServerOptions};
use serde_json::{Value, json};
use tonic::Status;
use tonic::transport::Channel;

/// Clients of each service over one connection, and the server (`()` for a further connection to it).
pub(crate) struct World<S = Server> {
    pub(crate) server: S,
    pub(crate) cluster: ClusterServiceClient<Channel>,
    pub(crate) placement: PlacementServiceClient<Channel>,
    pub(crate) preemption: PreemptionServiceClient<Channel>,
    pub(crate) session: SessionServiceClient<Channel>,
    pub(crate) channel: Channel,
}

/// The default limits, except that nothing is refused for load, however slow the machine.
pub(crate) fn limits() -> Limits {
    let load = LoadLimits { max_queue_time: Duration::from_secs(600), ..LoadLimits::default() };
    Limits { load, ..Limits::default() }
}

/// Lexicographic tie-break, so that every test can name the node it expects.
pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        tie_break: TieBreak::Lexicographic,
        drain_grace_period: Duration::from_secs(20),
        limits: limits(),
        ..ServerOptions::default()
    }
}

impl World {
    pub(crate) async fn start() -> World {
        World::with(options()).await
    }

    pub(crate) async fn with(options: ServerOptions) -> World {
        World::around(Server::start(options).await.unwrap()).await
    }

    /// Connects to a server that was started.
    pub(crate) async fn around(server: Server) -> World {
        let channel = connect(&server).await;
        World::of(server, channel)
    }

    /// Opens a further connection to the server.
    pub(crate) async fn connect(&self) -> Client {
        World::of((), connect(&self.server).await)
    }
}

/// Clients of the server of another [`World`].
pub(crate) type Client = World<()>;

impl<S> World<S> {
    fn of(server: S, channel: Channel) -> World<S> {
        World {
            cluster: ClusterServiceClient::new(channel.clone())
                .max_decoding_message_size(256 << 20),
            placement: PlacementServiceClient::new(channel.clone())
                .max_decoding_message_size(256 << 20),
            preemption: PreemptionServiceClient::new(channel.clone()),
            session: SessionServiceClient::new(channel.clone()),
            channel,
            server,
        }
    }

    pub(crate) async fn apply(
        &mut self,
        changes: impl IntoIterator<Item = Change>,
    ) -> ApplyResponse {
        let deltas = changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
        self.cluster.apply(ApplyRequest { deltas }).await.unwrap().into_inner()
    }

    /// Nodes n0, n1, … of `cpu` cores and 110 pods each.
    pub(crate) async fn nodes(&mut self, n: usize, cpu: u32) {
        let changes: Vec<_> =
            (0..n).map(|i| Change::UpsertNode(node(&format!("n{i}"), &cpu.to_string()))).collect();
        let response = self.apply(changes).await;
        assert_eq!(response.rejections, []);
    }

    pub(crate) async fn counts(&mut self) -> GetClusterResponse {
        self.cluster.get_cluster(GetClusterRequest::default()).await.unwrap().into_inner()
    }

    pub(crate) async fn list_nodes(&mut self) -> Vec<NodeSummary> {
        let request = ListNodesRequest { page_size: 5_000, ..ListNodesRequest::default() };
        self.cluster.list_nodes(request).await.unwrap().into_inner().nodes
    }

    pub(crate) async fn list_pods(&mut self) -> Vec<PodSummary> {
        let mut pods = Vec::new();
        let mut page_token = String::new();
        loop {
            let request =
                ListPodsRequest { page_size: 1_000, page_token, ..ListPodsRequest::default() };
            let page = self.cluster.list_pods(request).await.unwrap().into_inner();
            pods.extend(page.pods);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return pods;
            }
        }
    }

    pub(crate) async fn place(
        &mut self,
        pod: core_v1::Pod,
        mode: PlaceMode,
    ) -> Result<Decision, Status> {
        let request =
            PlaceRequest { pod: Some(pod.into()), mode: mode as i32, ..PlaceRequest::default() };
        self.placement.place(request).await.map(|response| response.into_inner().decision.unwrap())
    }
}

pub(crate) async fn connect(server: &Server) -> Channel {
    let uri = format!("http://{}", server.grpc_address());
    Channel::from_shared(uri).unwrap().connect().await.unwrap()
}

pub(crate) fn node(name: &str, cpu: &str) -> core_v1::Node {
    node_of(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    }))
}

pub(crate) fn node_of(value: Value) -> core_v1::Node {
    serde_json::from_value(value).unwrap()
}

/// A pod of the namespace `default` that asks for `cpu`.
pub(crate) fn pod(name: &str, cpu: &str) -> core_v1::Pod {
    pod_of(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }))
}

pub(crate) fn pod_of(value: Value) -> core_v1::Pod {
    serde_json::from_value(value).unwrap()
}

/// A pod that asks for `cpu`, with parts of its `metadata`, `spec` or `status` replaced.
pub(crate) fn pod_with(name: &str, cpu: &str, parts: &Value) -> core_v1::Pod {
    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }
    let mut value = serde_json::to_value(pod(name, cpu)).unwrap();
    merge(&mut value, parts);
    pod_of(value)
}

/// A pod that asks for `cpu` and runs on `node`.
pub(crate) fn bound(name: &str, cpu: &str, node: &str) -> core_v1::Pod {
    pod_with(name, cpu, &json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}}))
}

pub(crate) fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into(), uid: String::new() }
}

pub(crate) fn entry(pod: core_v1::Pod, replicas: u32) -> BatchEntry {
    BatchEntry { pod: Some(pod.into()), replicas }
}

/// The node of a placement, or the message of a pod that fits nowhere.
pub(crate) fn outcome(decision: &Decision) -> Result<&str, String> {
    match decision.outcome.as_ref().unwrap() {
        decision::Outcome::Placement(placement) => Ok(&placement.node_name),
        decision::Outcome::Unschedulable(unschedulable) => Err(unschedulable.message.clone()),
        decision::Outcome::Gated(gated) => {
            Err(format!("{}: {}", gated.plugin, gated.reasons.join(", ")))
        }
    }
}

pub(crate) fn result(result: &PlaceResult) -> Result<&Decision, &PlaceError> {
    match result.result.as_ref().unwrap() {
        place_result::Result::Decision(decision) => Ok(decision),
        place_result::Result::Error(error) => Err(error),
    }
}

/// Field and reason of the first violation in the status' details.
pub(crate) fn violation(status: &Status) -> (String, String) {
    use tonic_types::StatusExt as _;
    let details = status.get_error_details();
    let request = details.bad_request().unwrap_or_else(|| panic!("no field in {status:?}"));
    let violation = &request.field_violations[0];
    (violation.field.clone(), violation.description.clone())
}

/// Tries until `condition` holds; fails after ten seconds.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    for _ in 0..500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came true: {what}");
}
