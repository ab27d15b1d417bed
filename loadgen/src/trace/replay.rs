//! Replay of a trace: places and deletes one task at a time through a running server, in order.

use std::collections::BTreeSet;
use std::time::Instant;

use berth_client::{Client, ClientError, OnProgress};
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ExplainRequest, PlaceMode, PlaceRequest, Placement, PodKey, TieBreak, decision::Outcome,
};
use berth_proto::core_v1::Node;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::openb::NAMESPACE;
use super::{Event, Order, Task, Trace};
use crate::report::Latency;

/// Placement of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskPlacement {
    /// The task's name.
    pub pod: String,
    /// Name of the node; absent if the task fits none.
    pub node: Option<String>,
    /// The winning total score; absent if the task fits no node, or if the server did not score because only one node
    /// fits.
    pub total: Option<i64>,
    /// Number of feasible nodes.
    pub n_feasible: i64,
    /// Number of feasible nodes that share the best total.
    pub n_best: i64,
}

/// Result of a replay.
#[derive(Debug)]
pub struct Replay {
    /// One placement a task, in order of arrival.
    pub answers: Vec<TaskPlacement>,
    /// Tasks that left during the replay.
    pub n_departures: usize,
    /// Times of the `Place` calls.
    pub latency: Latency,
    /// Keys of the tasks that are on a node at the end.
    pub left: Vec<PodKey>,
}

/// Settings of a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplaySpec {
    /// Rule for nodes with equal totals; the server's own rule when absent.
    pub tie_break: Option<TieBreak>,
    /// Tasks explained before they are placed, so that a single feasible node has a total too: `Place` gives none
    /// then, because kube-scheduler does not score a single node, while the recorded answers do.
    pub explained: BTreeSet<String>,
}

/// Reason why a replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A call for one task failed.
    #[error("pod `{pod}`: {source}")]
    Pod {
        /// The task's name.
        pod: String,
        /// Error of the call.
        source: ClientError,
    },
    /// The server refused a node of the trace.
    #[error("the server refused {n} of the nodes, first {first}")]
    RefusedNodes {
        /// Number of refused nodes.
        n: usize,
        /// The first refused node with field and reason.
        first: String,
    },
    /// The server's cluster has other nodes or pods than the trace.
    #[error(
        "the server's cluster has {n_nodes} nodes and {n_pods} pods where {expected_nodes} nodes and no pods are needed; start a fresh server"
    )]
    NotEmpty {
        /// Nodes of the server.
        n_nodes: u32,
        /// Pods of the server.
        n_pods: u32,
        /// Nodes of the trace.
        expected_nodes: usize,
    },
}

/// Feeds the trace's nodes as the whole cluster, and checks that the cluster holds nothing else.
pub async fn feed(client: &Client, trace: &Trace) -> Result<(), ReplayError> {
    let nodes: Vec<Node> = trace.nodes.iter().map(super::TraceNode::to_wire).collect();
    let changes = nodes.into_iter().map(Change::UpsertNode);
    let fed = client.feed(changes, std::sync::Arc::new(|_| ())).await?;
    if let Some(first) = fed.refused.first() {
        return Err(ReplayError::RefusedNodes { n: fed.refused.len(), first: first.to_string() });
    }
    let cluster = client.get_cluster().await?;
    if cluster.n_nodes as usize != trace.nodes.len() || cluster.n_pods != 0 {
        let (n_nodes, n_pods) = (cluster.n_nodes, cluster.n_pods);
        return Err(ReplayError::NotEmpty { n_nodes, n_pods, expected_nodes: trace.nodes.len() });
    }
    Ok(())
}

/// Places and deletes the tasks one after another. `on_progress` is called after each task.
pub async fn replay(
    client: &Client,
    trace: &Trace,
    order: Order,
    spec: &ReplaySpec,
    on_progress: OnProgress,
) -> Result<Replay, ReplayError> {
    let mut answers = Vec::with_capacity(trace.tasks.len());
    let mut on_node: Vec<bool> = vec![false; trace.tasks.len()];
    let mut n_departures = 0;
    let mut nanoseconds = histogram();
    for event in trace.events(order) {
        let (Event::Arrive(number) | Event::Leave(number)) = event;
        let task = &trace.tasks[number];
        let failed = |source| ReplayError::Pod { pod: task.name.clone(), source };
        match event {
            Event::Arrive(_) => {
                let answer = arrive(client, task, spec, &mut nanoseconds).await.map_err(failed)?;
                on_node[number] = answer.node.is_some();
                answers.push(answer);
                on_progress(1);
            }
            // A task that was not placed, or has not arrived yet, has no node to leave.
            Event::Leave(_) if on_node[number] => {
                client.delete_pods(&[key(task)]).await.map_err(failed)?;
                on_node[number] = false;
                n_departures += 1;
            }
            Event::Leave(_) => {}
        }
    }
    let left = trace
        .tasks
        .iter()
        .zip(on_node)
        .filter(|(_, on_node)| *on_node)
        .map(|(task, _)| key(task))
        .collect();
    Ok(Replay { answers, n_departures, latency: Latency::of(&nanoseconds), left })
}

#[expect(clippy::expect_used, reason = "the precision is a constant that hdrhistogram accepts")]
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are a valid precision")
}

fn key(task: &Task) -> PodKey {
    PodKey { namespace: NAMESPACE.to_owned(), name: task.name.clone(), uid: task.name.clone() }
}

async fn arrive(
    client: &Client,
    task: &Task,
    spec: &ReplaySpec,
    nanoseconds: &mut Histogram<u64>,
) -> Result<TaskPlacement, ClientError> {
    const METHOD: &str = "PlacementService.Place";
    let explained_total = if spec.explained.contains(&task.name) {
        single_total(client, task, spec).await?
    } else {
        None
    };
    let request = PlaceRequest {
        pod: Some(task.to_wire().into()),
        mode: PlaceMode::Assume.into(),
        tie_break: spec.tie_break,
        // A trace may take longer than any time to live; its pods leave by deletion.
        assume_ttl_ms: Some(0),
        ..PlaceRequest::default()
    };
    let start = Instant::now();
    let answer =
        client.placement(0).place(request).await.map_err(ClientError::rpc(METHOD))?.into_inner();
    let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // A growing histogram refuses only values that it cannot index.
    nanoseconds.record(elapsed.max(1)).ok();
    match answer.decision.and_then(|decision| decision.outcome) {
        Some(Outcome::Placement(placement)) if placement.assumed => {
            Ok(placed(task, placement, explained_total))
        }
        Some(Outcome::Placement(_)) => Err(contract(METHOD, "the placement was not assumed")),
        Some(Outcome::Unschedulable(_)) => Ok(TaskPlacement {
            pod: task.name.clone(),
            node: None,
            total: None,
            n_feasible: 0,
            n_best: 0,
        }),
        Some(Outcome::Gated(_)) => Err(contract(METHOD, "a pod without gates is gated")),
        None => Err(contract(METHOD, "the answer has no outcome")),
    }
}

fn placed(task: &Task, placement: Placement, explained_total: Option<i64>) -> TaskPlacement {
    TaskPlacement {
        pod: task.name.clone(),
        node: Some(placement.node_name),
        total: placement.total_score.or(explained_total),
        n_feasible: placement.n_feasible_nodes.into(),
        n_best: placement.n_best_nodes.into(),
    }
}

/// The total of the only feasible node, explained before the task is assumed there.
async fn single_total(
    client: &Client,
    task: &Task,
    spec: &ReplaySpec,
) -> Result<Option<i64>, ClientError> {
    let request = ExplainRequest {
        pod: Some(task.to_wire()),
        tie_break: spec.tie_break,
        ..ExplainRequest::default()
    };
    let answer = client.placement(0).explain(request).await;
    let answer = answer.map_err(ClientError::rpc("PlacementService.Explain"))?.into_inner();
    let mut feasible = answer.nodes.iter().filter(|node| node.feasible);
    Ok(match (feasible.next(), feasible.next()) {
        (Some(only), None) => Some(only.total_score),
        _ => None,
    })
}

fn contract(method: &'static str, reason: &str) -> ClientError {
    ClientError::Contract { method, reason: reason.to_owned() }
}
