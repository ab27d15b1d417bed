//! A fake server with a scheduler of ten lines, whose decisions can be worked out by hand, and with faults on demand.
//!
//! A node is feasible when every request fits and the first required `In` matches; its total is 500 less 10 a pod on
//! it; ties go to the name that sorts first.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use berth_proto::berth_v1::cluster_service_server::{ClusterService, ClusterServiceServer};
use berth_proto::berth_v1::placement_service_server::{PlacementService, PlacementServiceServer};
use berth_proto::berth_v1::*;
use berth_proto::core_v1::{Node, Pod};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Faults of the server.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// Resource that the scheduler ignores.
    pub(crate) ignores: Option<&'static str>,
    /// Node that a feed may not contain.
    pub(crate) refuses_node: Option<&'static str>,
    /// Suffix of the names of refused pods.
    pub(crate) refuses_pods: Option<&'static str>,
    /// Number of a `Place` call, from 0, and the time that it takes.
    pub(crate) stalls: Option<(u64, Duration)>,
    /// `Sync` responses carry a wrong sequence number.
    pub(crate) confuses_sequence: bool,
    /// Messages after which a placement stream ends.
    pub(crate) ends_stream_after: Option<usize>,
    /// Messages after which a placement stream ends with the status of a draining server.
    pub(crate) drains_stream_after: Option<usize>,
    /// Limit of concurrent batches, and the time that each takes; further batches are refused with a retry delay.
    pub(crate) admits: Option<(usize, Duration)>,
    /// An error in the handling of assumed pods.
    pub(crate) forgets: Option<Forgets>,
}

/// Errors in the handling of assumed pods.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Forgets {
    /// A granted pod is not kept.
    Granted,
    /// Pods of a refused call are assumed.
    Refused,
}

/// Retry delay of a refusal.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(70);

#[derive(Clone, Default)]
pub(crate) struct FakeServer {
    faults: Faults,
    state: Arc<Mutex<State>>,
}

/// A runtime with a server; dropping it kills the server.
pub(crate) struct Process(Option<tokio::runtime::Runtime>);

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Name of the node and pod, by the name of the pod.
    pub(crate) pods: BTreeMap<String, (String, Pod)>,
    /// Kind and name of the other objects that were fed, in order.
    pub(crate) others: Vec<String>,
    pub(crate) n_place_calls: u64,
    pub(crate) n_explain_calls: u64,
    /// Number of messages of all snapshots.
    pub(crate) n_sync_messages: usize,
    n_batches_in_flight: usize,
}

impl FakeServer {
    /// Starts a server on a free port that runs until the test ends.
    pub(crate) async fn start(faults: Faults) -> (Self, String) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let server = Self { faults, ..Self::default() };
        tokio::spawn(server.clone().serve(listener));
        (server, format!("http://{address}"))
    }

    /// Starts a server at `address`. Dropping the second value kills it with all its connections.
    pub(crate) fn start_killable(faults: Faults, address: &str) -> (Self, Process) {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let server = Self { faults, ..Self::default() };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(server.clone().serve(listener));
        (server, Process(Some(runtime)))
    }

    async fn serve(self, listener: std::net::TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tonic::transport::Server::builder()
            .add_service(ClusterServiceServer::new(self.clone()))
            .add_service(PlacementServiceServer::new(self))
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await
            .unwrap();
    }

    /// Locks the state. At most one guard in a statement: a second one would wait for the first.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn apply(&self, index: u32, delta: Delta) -> Option<Rejection> {
        let mut state = self.state();
        match delta.change? {
            delta::Change::UpsertNode(node) => {
                let name = node.metadata.clone()?.name;
                if self.faults.refuses_node == Some(name.as_str()) {
                    let (field, reason) =
                        ("status.allocatable[cpu]".to_owned(), "must not be negative".to_owned());
                    return Some(Rejection {
                        index,
                        field,
                        reason,
                        object: format!("Node {name}"),
                    });
                }
                state.nodes.insert(name, node);
            }
            delta::Change::UpsertPod(pod) => {
                let (name, node) = (pod.metadata.clone()?.name, pod.spec.clone()?.node_name);
                state.pods.insert(name, (node, pod));
            }
            delta::Change::DeleteNode(name) => drop(state.nodes.remove(&name)),
            delta::Change::DeletePod(key) => drop(state.pods.remove(&key.name)),
            delta::Change::UpsertNamespace(namespace) => {
                state.others.push(format!("Namespace {}", namespace.metadata?.name));
            }
            delta::Change::UpsertService(service) => {
                state.others.push(format!("Service {}", service.metadata?.name));
            }
            other => state.others.push(format!("unexpected {other:?}")),
        }
        None
    }

    /// Feasible nodes with their totals.
    fn feasible(&self, pod: &Pod) -> Vec<(String, i64)> {
        let state = self.state();
        let fits = |name: &String, node: &Node| {
            let allocatable = &node.status.as_ref().unwrap().allocatable;
            let on_node: Vec<&Pod> =
                state.pods.values().filter(|(at, _)| at == name).map(|(_, pod)| pod).collect();
            let enough = requests(pod).into_iter().all(|(resource, amount)| {
                let used: i64 = on_node
                    .iter()
                    .map(|pod| requests(pod).get(&resource).copied().unwrap_or(0))
                    .sum();
                let all = allocatable
                    .get(&resource)
                    .map_or(0, |quantity| quantity.parse().unwrap().milli_value());
                self.faults.ignores == Some(resource.as_str()) || used + amount <= all
            });
            (enough && selects(pod, node)).then(|| (name.clone(), 500 - 10 * on_node.len() as i64))
        };
        state.nodes.iter().filter_map(|(name, node)| fits(name, node)).collect()
    }

    async fn decide(&self, pod: Option<Pod>, mode: i32) -> Result<Decision, Status> {
        let pod = pod.ok_or_else(|| Status::invalid_argument("`pod` is missing"))?;
        let metadata = pod.metadata.clone().unwrap_or_default();
        if self.faults.refuses_pods.is_some_and(|suffix| metadata.name.ends_with(suffix)) {
            return Err(Status::invalid_argument("`spec`: is not to its taste"));
        }
        let call = {
            let mut state = self.state();
            state.n_place_calls += 1;
            state.n_place_calls - 1
        };
        if let Some((_, duration)) = self.faults.stalls.filter(|(stalled, _)| *stalled == call) {
            tokio::time::sleep(duration).await;
        }
        let feasible = self.feasible(&pod);
        let assumed = mode == i32::from(PlaceMode::Assume);
        let best = feasible.iter().map(|(_, total)| *total).max();
        let outcome = match feasible.iter().find(|(_, total)| Some(*total) == best) {
            None => decision::Outcome::Unschedulable(Unschedulable {
                message: "0 nodes are available".to_owned(),
                reasons: vec![ReasonCount { reason: "Insufficient room".to_owned(), n_nodes: 1 }],
                ..Unschedulable::default()
            }),
            Some((node, total)) => {
                if assumed {
                    let taken = self
                        .state()
                        .pods
                        .insert(metadata.name.clone(), (node.clone(), pod.clone()));
                    if taken.is_some() {
                        return Err(Status::already_exists(format!(
                            "pod `{}` is on a node already",
                            metadata.name
                        )));
                    }
                }
                decision::Outcome::Placement(Placement {
                    node_name: node.clone(),
                    total_score: (feasible.len() > 1).then_some(*total),
                    n_feasible_nodes: feasible.len() as u32,
                    n_best_nodes: feasible.iter().filter(|(_, total)| Some(*total) == best).count()
                        as u32,
                    assumed,
                    volumes: None,
                    assumption: None,
                    devices: None,
                })
            }
        };
        let key = PodKey { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid };
        Ok(Decision { pod: Some(key), generation: 1, outcome: Some(outcome) })
    }

    async fn decide_entries(&self, entries: Vec<BatchEntry>, mode: i32) -> Vec<PlaceResult> {
        let mut results = Vec::new();
        for entry in entries {
            for replica in 0..entry.replicas.max(1) {
                let mut pod = entry.pod.as_ref().map(|pod| pod.to_pod().unwrap());
                if let (true, Some(metadata)) =
                    (entry.replicas > 1, pod.as_mut().and_then(|pod| pod.metadata.as_mut()))
                {
                    metadata.name = format!("{}-{replica}", metadata.name);
                }
                let result = match self.decide(pod, mode).await {
                    Ok(decision) => place_result::Result::Decision(decision),
                    Err(status) => place_result::Result::Error(PlaceError {
                        code: status.code().into(),
                        message: status.message().to_owned(),
                        field: String::new(),
                    }),
                };
                results.push(PlaceResult { result: Some(result) });
            }
        }
        results
    }
}

fn requests(pod: &Pod) -> BTreeMap<String, i64> {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let requests = containers[0].resources.as_ref().unwrap().requests.iter();
    requests
        .map(|(name, quantity)| (name.clone(), quantity.parse().unwrap().milli_value()))
        .collect()
}

fn selects(pod: &Pod, node: &Node) -> bool {
    let affinity = pod
        .spec
        .as_ref()
        .unwrap()
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| {
        let requirement = &required.node_selector_terms[0].match_expressions[0];
        let label = node.metadata.as_ref().unwrap().labels.get(&requirement.key);
        label.is_some_and(|label| requirement.values.contains(label))
    })
}

#[tonic::async_trait]
impl ClusterService for FakeServer {
    type SyncStream = ReceiverStream<Result<SyncResponse, Status>>;
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn sync(
        &self,
        request: Request<Streaming<SyncRequest>>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        let (answers, receiver) = tokio::sync::mpsc::channel(1);
        let (server, mut requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            let mut collected = Vec::new();
            let mut sequence = 0;
            while let Ok(Some(request)) = requests.message().await {
                server.state().n_sync_messages += 1;
                let mut rejections = Vec::new();
                match request.message.unwrap() {
                    sync_request::Message::BeginSnapshot(_) => collected.clear(),
                    sync_request::Message::Batch(batch) => collected.extend(batch.deltas),
                    sync_request::Message::EndSnapshot(_) => {
                        server.state().nodes.clear();
                        for (index, delta) in collected.drain(..).enumerate() {
                            rejections.extend(server.apply(index as u32, delta));
                        }
                    }
                }
                let numbered =
                    if server.faults.confuses_sequence { sequence + 7 } else { sequence };
                answers
                    .send(Ok(SyncResponse { sequence: numbered, generation: 3, rejections }))
                    .await
                    .ok();
                sequence += 1;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn apply(
        &self,
        request: Request<ApplyRequest>,
    ) -> Result<Response<ApplyResponse>, Status> {
        let deltas = request.into_inner().deltas.into_iter().enumerate();
        let rejections =
            deltas.filter_map(|(index, delta)| self.apply(index as u32, delta)).collect();
        Ok(Response::new(ApplyResponse { generation: 4, rejections }))
    }

    async fn get_cluster(
        &self,
        _: Request<GetClusterRequest>,
    ) -> Result<Response<GetClusterResponse>, Status> {
        let state = self.state();
        let (n_nodes, n_pods) = (state.nodes.len() as u32, state.pods.len() as u32);
        Ok(Response::new(GetClusterResponse { n_nodes, n_pods, ..GetClusterResponse::default() }))
    }

    async fn list_nodes(
        &self,
        _: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        let first = self.state().nodes.keys().next().cloned();
        let summary = |name| NodeSummary { name, ..NodeSummary::default() };
        let nodes = first.into_iter().map(summary).collect();
        Ok(Response::new(ListNodesResponse { nodes, ..ListNodesResponse::default() }))
    }

    /// Lists pods in pages of ten.
    async fn list_pods(
        &self,
        request: Request<ListPodsRequest>,
    ) -> Result<Response<ListPodsResponse>, Status> {
        let ListPodsRequest { page_token, namespace, .. } = request.into_inner();
        let state = self.state();
        let after = state.pods.range(page_token.clone()..).filter(|(name, _)| **name != page_token);
        let keys = after.filter_map(|(_, (_, pod))| {
            let metadata = pod.metadata.clone()?;
            let (namespace, uid) = (metadata.namespace, metadata.uid);
            Some(PodKey { namespace, name: metadata.name, uid })
        });
        let keys: Vec<_> = keys.filter(|key| key.namespace == namespace).take(10).collect();
        let is_full = keys.len() == 10;
        let next_page_token = keys.last().filter(|_| is_full).map(|key| key.name.clone());
        let summary = |key| PodSummary { key: Some(key), assumed: true, ..PodSummary::default() };
        let pods = keys.into_iter().map(summary).collect();
        let next_page_token = next_page_token.unwrap_or_default();
        Ok(Response::new(ListPodsResponse { pods, next_page_token, generation: 5 }))
    }

    async fn get_pod(&self, _: Request<GetPodRequest>) -> Result<Response<GetPodResponse>, Status> {
        Err(not_called())
    }

    async fn list_pending(
        &self,
        _: Request<ListPendingRequest>,
    ) -> Result<Response<ListPendingResponse>, Status> {
        Err(not_called())
    }

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(not_called())
    }
}

#[tonic::async_trait]
impl PlacementService for FakeServer {
    type PlaceStreamStream = ReceiverStream<Result<PlaceStreamResponse, Status>>;

    async fn place(
        &self,
        request: Request<PlaceRequest>,
    ) -> Result<Response<PlaceResponse>, Status> {
        let PlaceRequest { pod, mode, .. } = request.into_inner();
        let decision = Some(self.decide(pod.map(|pod| pod.to_pod().unwrap()), mode).await?);
        Ok(Response::new(PlaceResponse { decision, admission: None }))
    }

    async fn place_batch(
        &self,
        request: Request<PlaceBatchRequest>,
    ) -> Result<Response<PlaceBatchResponse>, Status> {
        let PlaceBatchRequest { entries, mode, .. } = request.into_inner();
        if let Some((n_admitted, takes)) = self.faults.admits {
            if self.state().n_batches_in_flight >= n_admitted {
                if self.faults.forgets == Some(Forgets::Refused) {
                    self.decide_entries(entries, mode).await;
                }
                let details = ErrorDetails::with_retry_info(Some(RETRY_AFTER));
                let code = Code::ResourceExhausted;
                return Err(Status::with_error_details(code, "too many batches", details));
            }
            self.state().n_batches_in_flight += 1;
            tokio::time::sleep(takes).await;
            self.state().n_batches_in_flight -= 1;
        }
        let results = self.decide_entries(entries, mode).await;
        if self.faults.forgets == Some(Forgets::Granted) {
            self.state().pods.retain(|name, _| !name.starts_with("assumed-"));
        }
        Ok(Response::new(PlaceBatchResponse { results, ..PlaceBatchResponse::default() }))
    }

    async fn place_stream(
        &self,
        request: Request<Streaming<PlaceStreamRequest>>,
    ) -> Result<Response<Self::PlaceStreamStream>, Status> {
        let (answers, receiver) = tokio::sync::mpsc::channel(16);
        let (server, mut requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            let drains_after = server.faults.drains_stream_after;
            let mut n_left = server.faults.ends_stream_after.or(drains_after).unwrap_or(usize::MAX);
            while let (true, Ok(Some(request))) = (n_left > 0, requests.message().await) {
                let PlaceStreamRequest { sequence, entries, mode, .. } = request;
                let results = server.decide_entries(entries, mode).await;
                answers
                    .send(Ok(PlaceStreamResponse {
                        sequence,
                        results,
                        ..PlaceStreamResponse::default()
                    }))
                    .await
                    .ok();
                n_left -= 1;
            }
            if n_left == 0 && drains_after.is_some() {
                answers.send(Err(Status::unavailable("the server is draining"))).await.ok();
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn reserve(
        &self,
        _: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        Err(not_called())
    }

    async fn confirm(
        &self,
        _: Request<ConfirmRequest>,
    ) -> Result<Response<ConfirmResponse>, Status> {
        Err(not_called())
    }

    async fn extend(&self, _: Request<ExtendRequest>) -> Result<Response<ExtendResponse>, Status> {
        Err(not_called())
    }

    async fn release(
        &self,
        _: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        Err(not_called())
    }

    async fn list_assumed(
        &self,
        _: Request<ListAssumedRequest>,
    ) -> Result<Response<ListAssumedResponse>, Status> {
        Err(not_called())
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        self.state().n_explain_calls += 1;
        let pod =
            request.into_inner().pod.ok_or_else(|| Status::invalid_argument("`pod` is missing"))?;
        let feasible: BTreeMap<String, i64> = self.feasible(&pod).into_iter().collect();
        let verdict = |name: &String| NodeVerdict {
            node_name: name.clone(),
            feasible: feasible.contains_key(name),
            total_score: feasible.get(name).copied().unwrap_or(0),
            ..NodeVerdict::default()
        };
        let nodes = self.state().nodes.keys().map(verdict).collect();
        Ok(Response::new(ExplainResponse { nodes, ..ExplainResponse::default() }))
    }
}

fn not_called() -> Status {
    Status::unimplemented("the load generator does not call it")
}
