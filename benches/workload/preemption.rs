//! The baseline's preemption workloads: nodes without room, full of pods of lower priority.
//!
//! Both have the same cluster and the same incoming pods; they differ in the number of candidate nodes.

use std::sync::Arc;

use berth_engine::{Cluster, ClusterState, Pod, PreemptOptions};
use berth_proto::Time;
use berth_proto::core_v1::{self, PodStatus};
use berth_synthetic::baseline::pod::{plain, request, set_label};

use super::{Workload, compiled_node, compiled_pod, node_name, objects};

/// 2026-01-01T00:00:00Z, the baseline's T, in seconds since 1970.
const T: i64 = 1_767_225_600;
/// Existing pods of a node share its 32 cores and half of its 128 GiB.
const NODE_MILLI_CPU: usize = 32_000;
const HALF_MEMORY: usize = 64 << 30;
/// `spec.priority` of a node's existing pods, in the order of their creation.
const PRIORITIES: [i32; 4] = [0, 0, 5, 10];
/// `spec.priority` of the incoming pods.
pub(super) const PREEMPTOR_PRIORITY: i32 = 100;
/// Memory request of an incoming pod.
pub(super) const PREEMPTOR_MEMORY: usize = 4 << 30;

/// One of the two preemption workloads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PreemptionWorkload {
    /// kube-scheduler's default: a tenth of the candidate nodes, from a random one on.
    Sampled,
    /// All candidate nodes (`minCandidateNodesPercentage: 100`).
    All,
}

impl PreemptionWorkload {
    /// Both workloads, in the baseline's order.
    pub const ALL: [PreemptionWorkload; 2] = [PreemptionWorkload::Sampled, PreemptionWorkload::All];

    /// The workload's name in the baseline.
    pub fn name(self) -> &'static str {
        match self {
            PreemptionWorkload::Sampled => "i1-preemption-default",
            PreemptionWorkload::All => "i2-preemption-all",
        }
    }

    /// The options of an attempt; `seed` draws the first node of a sample.
    pub fn options(self, seed: u64) -> PreemptOptions {
        let sample = match self {
            PreemptionWorkload::Sampled => Some(seed),
            PreemptionWorkload::All => None,
        };
        PreemptOptions { sample, ..PreemptOptions::default() }
    }
}

/// A cluster of `n_nodes` without room, `pods_per_node` pods of low priority on each.
pub fn full_cluster(n_nodes: usize, pods_per_node: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let n_pods = n_nodes * pods_per_node;
    let existing = |j| compiled_pod(&cluster, &low_priority(j, n_nodes, pods_per_node));
    let state = ClusterState {
        nodes: (0..n_nodes).map(|i| compiled_node(&cluster, i, Workload::Basic)).collect(),
        objects: objects(&cluster, Workload::Basic),
        pods: (0..n_pods).map(existing).collect(),
    };
    let applied = cluster.replace(state);
    assert!(applied.rejected.is_empty(), "the baseline's objects are valid");
    assert_eq!(cluster.snapshot().n_pods(), n_pods);
    Arc::new(cluster)
}

/// Existing pod `j`, on node `j` mod `n_nodes`.
pub fn low_priority(j: usize, n_nodes: usize, pods_per_node: usize) -> core_v1::Pod {
    // The uid identifies victims in the recorded decisions.
    let mut pod = plain(format!("ns-{}", j % 10), format!("e-{j}"), j);
    set_label(&mut pod, "app", &format!("app-{}", j / 10 % 100));
    request(&mut pod, "cpu", format!("{}m", NODE_MILLI_CPU / pods_per_node));
    request(&mut pod, "memory", (HALF_MEMORY / pods_per_node).to_string());
    if let Some(spec) = &mut pod.spec {
        spec.node_name = node_name(j % n_nodes);
        spec.priority = Some(PRIORITIES[j / n_nodes % PRIORITIES.len()]);
    }
    started(&mut pod, start_time(j));
    pod
}

/// Incoming pod `k`, for which no node has room.
pub fn preemptor(k: usize) -> core_v1::Pod {
    let mut pod = plain(format!("ns-{}", k % 10), format!("incoming-{k}"), k);
    set_label(&mut pod, "app", &format!("app-{}", k % 100));
    request(&mut pod, "cpu", "4".into());
    request(&mut pod, "memory", PREEMPTOR_MEMORY.to_string());
    if let Some(spec) = &mut pod.spec {
        spec.priority = Some(PREEMPTOR_PRIORITY);
    }
    pod
}

/// Incoming pod `k` under another name and with a unique shape: its memory is `k` bytes more.
pub fn preemptor_of_new_shape(cluster: &Cluster, mut pod: core_v1::Pod, k: usize) -> Pod {
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("distinct-{k}");
        metadata.uid = metadata.name.clone();
    }
    request(&mut pod, "memory", (PREEMPTOR_MEMORY + k).to_string());
    compiled_pod(cluster, &pod)
}

/// Start time of existing pod `j` in seconds since 1970.
pub(crate) fn start_time(j: usize) -> i64 {
    let ago = 1000 + 7919 * j % 100_000;
    T - i64::try_from(ago).unwrap_or_default()
}

pub(super) fn started(pod: &mut core_v1::Pod, seconds: i64) {
    let start_time = Some(Time::from_unix_seconds(seconds));
    pod.status = Some(PodStatus { start_time, ..PodStatus::default() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::N_NODES;
    use berth_engine::{Outcome, PlaceRequest, Policy, TieBreak};

    #[test]
    fn no_node_has_room_for_want_of_cpu_alone() {
        for (pods_per_node, milli_cpu, memory) in
            [(10, 32_000, 68_719_476_730), (30, 31_980, 68_719_476_720)]
        {
            let cluster = full_cluster(20, pods_per_node);
            for node in cluster.snapshot().nodes() {
                let amount = |name: &str| {
                    node.requested.iter().find(|(key, _)| &**key == name).map(|(_, amount)| *amount)
                };
                assert_eq!((amount("cpu"), amount("memory")), (Some(milli_cpu), Some(memory)));
                assert_eq!(usize::try_from(node.n_pods), Ok(pods_per_node));
            }
            let pod = compiled_pod(&cluster, &preemptor(7));
            let policy = Policy::default();
            let tie_break = TieBreak::Lexicographic;
            let decision = cluster
                .place(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None })
                .unwrap();
            let Outcome::Unschedulable(why) = decision.outcome else { panic!("{decision:?}") };
            let reasons: Vec<_> = why.reasons.iter().map(|r| (&*r.text, r.n_nodes)).collect();
            assert_eq!(reasons, [("Insufficient cpu", 20)]);
        }
    }

    #[test]
    fn priorities_and_start_times_are_those_of_the_baseline() {
        let of = |j| {
            let pod = low_priority(j, N_NODES, 30);
            let (spec, status) = (pod.spec.unwrap(), pod.status.unwrap());
            (spec.node_name, spec.priority, status.start_time.unwrap().unix_seconds())
        };
        let node = || "node-1074".to_owned();
        assert_eq!(of(1074), (node(), Some(0), Some(T - 6006)));
        assert_eq!(of(6074), (node(), Some(0), Some(T - 1006)));
        assert_eq!(of(11_074), (node(), Some(5), Some(T - 96_006)));
        assert_eq!(of(16_074), (node(), Some(10), Some(T - 91_006)));
        // The times of a node's pods repeat after twenty pods.
        assert_eq!(of(101_074), of(1074));
    }

    #[test]
    fn every_new_shape_is_new() {
        let cluster = full_cluster(1, 10);
        let n_before = cluster.n_shapes();
        for k in 0..5 {
            let pod = preemptor_of_new_shape(&cluster, preemptor(k), k);
            assert_eq!(pod.priority(), 100);
        }
        assert_eq!(cluster.n_shapes(), n_before + 5);
    }
}
