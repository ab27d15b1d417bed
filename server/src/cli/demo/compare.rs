//! One decision at a time: inside of the server, over a socket, and in kube-scheduler as it was recorded, on the mixed
//! workload of its baseline.

use std::time::Duration;

use berth_client::Client;
use berth_engine::{Cluster, PlaceRequest, Policy, TieBreak};
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{self as wire, PlaceMode};
use berth_proto::core_v1::Pod;
use berth_synthetic::baseline::kube_scheduler::times;
use berth_synthetic::baseline::{N_NODES, Workload, node, object, pod};

use super::story::time;
use crate::cli::output::{Table, count};
use crate::clock;

const WORKLOAD: Workload = Workload::Mixed;
/// Existing pods of each node, with which kube-scheduler was measured.
const PODS_PER_NODE: usize = 10;
/// Pods that are decided before those that are timed, and those.
const N_WARM_UP: usize = 100;
const N_TIMED: usize = 500;

/// Median times of one decision.
pub(super) struct Comparison {
    n_nodes: usize,
    /// From the pod as it was sent to its node.
    inside: Duration,
    /// From the request of a caller to its response.
    over_socket: Duration,
}

/// The objects of the baseline, with as many nodes as the demo has but no more than were measured.
pub(super) fn objects(n_nodes: usize) -> impl Iterator<Item = Change> + Send + 'static {
    let n_nodes = n_nodes.min(N_NODES);
    let namespaces = object::namespaces().into_iter().map(Change::UpsertNamespace);
    let service = object::service(WORKLOAD).into_iter().map(Change::UpsertService);
    let nodes = (0..n_nodes).map(|i| Change::UpsertNode(node::node(i, WORKLOAD)));
    let existing = (0..n_nodes * PODS_PER_NODE)
        .map(move |j| Change::UpsertPod(pod::existing(j, n_nodes, WORKLOAD)));
    namespaces.chain(service).chain(nodes).chain(existing)
}

/// Times decisions on a server that was fed [`objects`], one after another; the cluster stays as it is.
///
/// # Errors
/// A call that failed.
pub(super) async fn measure(cluster: &Cluster, client: &Client) -> Result<Comparison, String> {
    let policy = Policy::default();
    let (mut inside, mut over_socket) = (Vec::new(), Vec::new());
    let mut placement = client.placement(0);
    for k in 0..N_WARM_UP + N_TIMED {
        let incoming = pod::incoming(k, WORKLOAD);
        let began = clock::now();
        let decided = decide(cluster, &policy, &incoming);
        let decided_at = clock::now();
        decided.map_err(|error| error.to_string())?;
        let request = wire::PlaceRequest {
            pod: Some(incoming.into()),
            mode: PlaceMode::DryRun.into(),
            ..wire::PlaceRequest::default()
        };
        let sent = clock::now();
        placement.place(request).await.map_err(|status| status.message().to_owned())?;
        over_socket.push(clock::now() - sent);
        inside.push(decided_at - began);
    }
    Ok(Comparison {
        n_nodes: cluster.snapshot().n_nodes(),
        inside: median(&mut inside[N_WARM_UP..]),
        over_socket: median(&mut over_socket[N_WARM_UP..]),
    })
}

/// Reads a pod and decides, as the server does.
fn decide(cluster: &Cluster, policy: &Policy, pod: &Pod) -> Result<(), berth_engine::EngineError> {
    let pod = cluster.compile_pod(pod)?;
    let tie_break = TieBreak::Seeded(0);
    cluster.place(&PlaceRequest { pod: &pod, policy, tie_break, now: None }).map(drop)
}

pub(super) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

impl Comparison {
    /// Table of the times, the shortest last, and what the network adds.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["ONE DECISION AT A TIME", "MEDIAN"]);
        let recorded = times(WORKLOAD, PODS_PER_NODE).filter(|_| self.n_nodes == N_NODES);
        if let Some(recorded) = recorded {
            let median = Duration::from_micros(recorded.all_nodes_us.into());
            table.add_row([
                "kube-scheduler v1.36.2, every node considered (recorded)",
                &time(median),
            ]);
        }
        table.add_row(["Berth, a call over a loopback socket", &time(self.over_socket)]);
        table.add_row(["Berth, inside of the server", &time(self.inside)]);
        let n_pods = self.n_nodes * PODS_PER_NODE;
        let added = time(self.over_socket.saturating_sub(self.inside));
        format!(
            "{}\n{} and {} of the mixed workload that kube-scheduler was measured on; gRPC and the socket add {added}",
            table.text(),
            count(self.n_nodes, "node"),
            count(n_pods, "pod")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_time_is_shown_for_the_recorded_size_only() {
        let of = |n_nodes| {
            let (inside, over_socket) = (Duration::from_micros(9), Duration::from_micros(160));
            Comparison { n_nodes, inside, over_socket }.text()
        };
        assert_eq!(
            of(5_000),
            "ONE DECISION AT A TIME                                    MEDIAN\n\
             kube-scheduler v1.36.2, every node considered (recorded)  17.5 ms\n\
             Berth, a call over a loopback socket                      160 µs\n\
             Berth, inside of the server                               9 µs\n\
             5,000 nodes and 50,000 pods of the mixed workload that kube-scheduler was measured on; gRPC and the socket \
             add 151 µs"
        );
        assert!(!of(60).contains("recorded"), "{}", of(60));
    }

    #[test]
    fn the_baseline_has_ten_pods_a_node() {
        let changes: Vec<Change> = objects(20).collect();
        let n = |is: fn(&Change) -> bool| changes.iter().filter(|it| is(it)).count();
        assert_eq!(n(|it| matches!(it, Change::UpsertNode(_))), 20);
        assert_eq!(n(|it| matches!(it, Change::UpsertPod(_))), 200);
        assert_eq!(n(|it| matches!(it, Change::UpsertService(_))), 1);
    }
}
