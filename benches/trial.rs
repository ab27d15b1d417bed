//! [`Trial`]: a baseline cluster on which single decisions of Berth are timed.

pub mod device;
pub mod preemption;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use berth_engine::{Cluster, Delta, Outcome, PlaceRequest, Pod, PodKey, Policy, TieBreak};
use berth_proto::core_v1;

use crate::churn::churn_of;
use crate::workload::{Workload, cluster, compiled_pod, distinct_shape, incoming};

/// Pods that kube-scheduler placed as warm-up.
pub const N_WARM_UP: usize = 20;
/// Pods that were timed in each run of kube-scheduler.
pub const N_TIMED: usize = 120;

/// A baseline cluster with the positions in its sequences of pods.
#[derive(Debug)]
pub struct Trial {
    cluster: Arc<Cluster>,
    workload: Workload,
    n_nodes: usize,
    policy: Policy,
    next_shape: usize,
    next_churn: usize,
}

impl Trial {
    /// Builds the workload's cluster.
    pub fn new(workload: Workload, n_nodes: usize, pods_per_node: usize) -> Trial {
        Trial {
            cluster: cluster(workload, n_nodes, pods_per_node),
            workload,
            n_nodes,
            policy: Policy::default(),
            next_shape: 0,
            next_churn: 0,
        }
    }

    /// Time of `n` decisions by kube-scheduler's procedure: incoming pods from 0 on, one after another, each assumed
    /// before the next is decided. The assumption is not timed, nor are the first [`N_WARM_UP`] pods. After [`N_TIMED`]
    /// further pods all are removed, and the sequence starts again.
    pub fn time_sequence(&mut self, n: u64) -> Duration {
        let mut left = n;
        let mut total = Duration::ZERO;
        while left > 0 {
            let mut placed = Vec::with_capacity(N_WARM_UP + N_TIMED);
            for k in 0..N_WARM_UP + N_TIMED {
                let pod = incoming(k, self.workload);
                let decide = self.time_decision(&pod);
                placed.extend(pod.metadata.map(|it| PodKey::new(&it.namespace, &it.name)));
                if k >= N_WARM_UP {
                    total += decide;
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
            let leave = placed.into_iter().map(|key| Delta::DeletePod { key, uid: None });
            self.cluster.apply(leave.collect());
        }
        total
    }

    /// Time of `n` decisions for known shapes, with another pod added or removed before each.
    ///
    /// A workload with several kinds of pods cycles through them, so that between two decisions for one kind as many
    /// rows have changed as there are kinds.
    pub fn known_shape(&mut self, n: u64) -> Duration {
        let pods: Vec<Pod> = (0..self.workload.n_kinds())
            .map(|k| compiled_pod(&self.cluster, &incoming(k, self.workload)))
            .collect();
        for pod in &pods {
            self.place(pod);
        }
        pods.iter()
            .cycle()
            .zip(0..n)
            .map(|(pod, _)| {
                self.change_one_row();
                self.place(pod)
            })
            .sum()
    }

    /// Time of `n` decisions, each for a new shape.
    pub fn new_shapes(&mut self, n: u64) -> Duration {
        (0..n)
            .map(|_| {
                let pod = self.pod_of_new_shape();
                self.place(&pod)
            })
            .sum()
    }

    /// Time in which `n_threads` threads together make `n` decisions for new shapes.
    pub fn new_shapes_side_by_side(&mut self, n: u64, n_threads: u64) -> Duration {
        let shares: Vec<Vec<Pod>> = (0..n_threads)
            .map(|thread| n / n_threads + u64::from(thread < n % n_threads))
            .map(|share| (0..share).map(|_| self.pod_of_new_shape()).collect())
            .collect();
        let barrier = Barrier::new(shares.len());
        let slowest_ns = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for pods in &shares {
                let (trial, barrier, slowest_ns) = (&*self, &barrier, &slowest_ns);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    for pod in pods {
                        trial.place(pod);
                    }
                    let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    slowest_ns.fetch_max(ns, Ordering::Relaxed);
                });
            }
        });
        Duration::from_nanos(slowest_ns.into_inner())
    }

    /// Decides one pod, which must fit and is assumed afterwards: only the decision is timed.
    pub fn time_decision(&self, pod: &core_v1::Pod) -> Duration {
        let pod = compiled_pod(&self.cluster, pod);
        let decide = self.place(&pod);
        self.assume(&pod);
        decide
    }

    /// Reads, decides and assumes one pod, which must fit: all of it is timed.
    pub fn time_whole(&self, pod: &core_v1::Pod) -> Duration {
        let start = Instant::now();
        let pod = compiled_pod(&self.cluster, pod);
        start.elapsed() + self.assume(&pod)
    }

    /// Decides a pod with a new shape, which is timed, and assumes it.
    pub fn time_new_shape(&mut self) -> Duration {
        let pod = self.pod_of_new_shape();
        let decide = self.place(&pod);
        self.assume(&pod);
        decide
    }

    fn place(&self, pod: &Pod) -> Duration {
        let request = self.request(pod);
        let start = Instant::now();
        let decision = black_box(self.cluster.place(&request));
        let time = start.elapsed();
        assert!(decision.is_ok(), "the baseline's pods are decided");
        time
    }

    fn assume(&self, pod: &Pod) -> Duration {
        let request = self.request(pod);
        let start = Instant::now();
        let decision = black_box(self.cluster.assume(&request));
        let time = start.elapsed();
        let is_placed = decision.is_ok_and(|it| matches!(it.outcome, Outcome::Placed(_)));
        assert!(is_placed, "the baseline's pods fit");
        time
    }

    fn request<'a>(&'a self, pod: &'a Pod) -> PlaceRequest<'a> {
        PlaceRequest { pod, policy: &self.policy, tie_break: TieBreak::Seeded(0), now: None }
    }

    fn pod_of_new_shape(&mut self) -> Pod {
        self.next_shape += 1;
        distinct_shape(&self.cluster, self.next_shape, self.workload)
    }

    /// Adds a running pod, or removes the one that was added last.
    fn change_one_row(&mut self) {
        let (come, go) = churn_of(&self.cluster, self.next_churn / 2, self.n_nodes, self.workload);
        let delta = if self.next_churn.is_multiple_of(2) { come } else { go };
        self.next_churn += 1;
        self.cluster.apply(vec![delta]);
    }
}

/// The percentile `percent` of the times; zero without times.
pub fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough nodes for a warm-up and a run, even if no two pods may share a node.
    const N_NODES: usize = 1000;

    #[test]
    fn every_workload_can_be_timed_in_every_way_and_leaves_its_cluster_as_it_was() {
        for workload in Workload::ALL {
            let mut trial = Trial::new(workload, N_NODES, 1);
            let n_decisions = (N_WARM_UP + N_TIMED) as u64 + 5;
            for time in [
                trial.time_sequence(n_decisions),
                trial.known_shape(20),
                trial.new_shapes(5),
                trial.new_shapes_side_by_side(5, 2),
            ] {
                assert!(time > Duration::ZERO, "{workload:?}");
            }
            assert_eq!(trial.cluster.snapshot().n_pods(), N_NODES, "{workload:?}");
        }
    }

    #[test]
    fn a_turn_places_its_pod() {
        let mut trial = Trial::new(Workload::Basic, 3, 1);
        trial.time_whole(&incoming(0, Workload::Basic));
        trial.time_new_shape();
        trial.time_decision(&incoming(1, Workload::Basic));
        assert_eq!(trial.cluster.snapshot().n_pods(), 6);
    }

    #[test]
    fn shapes_are_as_distinct_as_they_claim() {
        let mut trial = Trial::new(Workload::Mixed, 10, 1);
        let n_before = trial.cluster.n_shapes();
        let pods: Vec<Pod> = (0..7).map(|_| trial.pod_of_new_shape()).collect();
        assert_eq!((pods.len(), trial.cluster.n_shapes()), (7, n_before + 7));
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = |n: u64| (1..=n).rev().map(Duration::from_nanos);
        assert_eq!(percentile(times(120), 50), Duration::from_nanos(60));
        assert_eq!(percentile(times(120), 99), Duration::from_nanos(119));
        assert_eq!(percentile(times(1), 99), Duration::from_nanos(1));
        assert_eq!(percentile(times(0), 50), Duration::ZERO);
    }
}
