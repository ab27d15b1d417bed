//! The demo with GPUs: every node has eight, claims hold half of them, and each pod to place comes with a claim.

use std::time::Duration;

use berth_engine::{Cluster, PlaceRequest, Policy, TieBreak};
use berth_proto::berth_v1::delta::Change;
use berth_proto::core_v1::Pod;
use berth_proto::resource_v1::ResourceClaim;
use berth_synthetic::baseline::device::{
    DeviceWorkload, N_DEVICES, N_HELD, asking, class, holding, slice,
};
use berth_synthetic::baseline::{N_NODES, Workload, node, object};

use super::compare::median;
use super::story::time;
use crate::cli::output::{Table, grouped};
use crate::clock;

/// What claims of the demo ask for, in turn.
const ASKED: [DeviceWorkload; 4] = [
    DeviceWorkload::OneDevice,
    DeviceWorkload::Selector,
    DeviceWorkload::MatchAttribute,
    DeviceWorkload::FirstAvailable,
];

/// Pods of each kind that are timed.
const N_TIMED: usize = 100;

/// GPUs of one NUMA node that the pod which fits nowhere asks for, of the four that each has.
const N_TOO_MANY: i64 = 6;

/// The pods to place, each with its claim, and one that fits nowhere.
pub(super) struct Asking {
    pub(super) pods: Vec<Pod>,
    pub(super) unfit: Pod,
    claims: Vec<ResourceClaim>,
}

impl Asking {
    pub(super) fn new(n_pods: usize, n_nodes: usize) -> Asking {
        let asked = (0..n_pods).map(|k| asking(k, n_nodes, ASKED[k % ASKED.len()]));
        let (pods, mut claims): (Vec<_>, Vec<_>) = asked.unzip();
        let (unfit, mut claim) = asking(n_pods, n_nodes, DeviceWorkload::MatchAttribute);
        let devices = claim.spec.get_or_insert_default().devices.get_or_insert_default();
        for request in &mut devices.requests {
            request.exactly.get_or_insert_default().count = N_TOO_MANY;
        }
        claims.push(claim);
        Asking { pods, unfit, claims }
    }

    /// The objects of the cluster, the claims of the pods to place included.
    pub(super) fn objects(&self, n_nodes: usize) -> Vec<Change> {
        let namespaces = object::namespaces().into_iter().map(Change::UpsertNamespace);
        let mut changes: Vec<Change> = namespaces.collect();
        changes.push(Change::UpsertDeviceClass(class()));
        changes.extend((0..n_nodes).map(|i| Change::UpsertNode(node::node(i, Workload::Basic))));
        changes.extend((0..n_nodes).map(|i| Change::UpsertResourceSlice(slice(i))));
        for j in 0..N_HELD * n_nodes {
            let (pod, claim) = holding(j, n_nodes, DeviceWorkload::MatchAttribute);
            changes.extend([Change::UpsertResourceClaim(claim), Change::UpsertPod(pod)]);
        }
        changes.extend(self.claims.iter().cloned().map(Change::UpsertResourceClaim));
        changes
    }

    /// Times decisions for the first pods of each kind, one after another; the cluster stays as it is.
    ///
    /// # Errors
    /// A decision that failed.
    pub(super) fn measure(&self, cluster: &Cluster) -> Result<String, String> {
        let policy = Policy::default();
        let mut times: [Vec<Duration>; ASKED.len()] = Default::default();
        for (k, pod) in self.pods.iter().take(N_TIMED * ASKED.len()).enumerate() {
            let began = clock::now();
            let decided = cluster.compile_pod(pod).map_err(|error| error.to_string())?;
            let tie_break = TieBreak::Seeded(0);
            let request = PlaceRequest { pod: &decided, policy: &policy, tie_break, now: None };
            let outcome = cluster.place(&request);
            times[k % ASKED.len()].push(clock::now() - began);
            outcome.map_err(|error| error.to_string())?;
        }
        Ok(table(cluster.snapshot().n_nodes(), &mut times))
    }
}

/// Number of GPUs of a cluster, and of those that are held.
pub(super) fn counts(n_nodes: usize) -> String {
    let (n, n_held) = (N_DEVICES * n_nodes, N_HELD * n_nodes);
    format!("{} GPUs, of which claims hold {}", grouped(n), grouped(n_held))
}

/// Median times beside those that were recorded from kube-scheduler, which are for one size of cluster.
fn table(n_nodes: usize, times: &mut [Vec<Duration>; ASKED.len()]) -> String {
    let mut table = Table::new(&[
        "ONE DECISION AT A TIME, INSIDE OF THE SERVER",
        "KUBE-SCHEDULER (RECORDED)",
        "BERTH",
    ]);
    for (asked, times) in ASKED.iter().zip(times) {
        let name = asked.name();
        let name = name.split_once(". ").map_or(name, |(_, name)| name);
        let recorded = Duration::from_micros(asked.kube_scheduler_us().into());
        let recorded = if n_nodes == N_NODES { time(recorded) } else { "-".to_owned() };
        table.add_row([name.to_owned(), recorded, time(median(times))]);
    }
    table.text()
}
