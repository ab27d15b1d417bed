//! [`PreemptionTrial`]: a full cluster on which whole attempts with preemption are timed.
//!
//! No pod is evicted, so that all pods meet the same cluster, as in kube-scheduler's procedure.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::{
    Cluster, Delta, Pod, Policy, PostFilter, PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;
use rayon::ThreadPool;

use super::N_WARM_UP;
use crate::workload::{
    N_CROWD_KINDS, PreemptionWorkload, compiled_pod, crowd_preemptor, crowded_cluster,
    full_cluster, preemptor, preemptor_of_new_shape,
};

/// A full cluster with the position in its sequence of pods.
#[derive(Debug)]
pub struct PreemptionTrial {
    cluster: Arc<Cluster>,
    /// One pod of each node, which is removed and added again to change the node.
    residents: Vec<Pod>,
    /// The kinds of incoming pods, which repeat.
    incoming: fn(usize) -> core_v1::Pod,
    n_kinds: usize,
    workload: PreemptionWorkload,
    policy: Policy,
    next_pod: usize,
    next_shape: usize,
    next_row: usize,
}

impl PreemptionTrial {
    /// The baseline's full cluster.
    pub fn new(
        workload: PreemptionWorkload,
        n_nodes: usize,
        pods_per_node: usize,
    ) -> PreemptionTrial {
        let cluster = full_cluster(n_nodes, pods_per_node);
        PreemptionTrial::on(cluster, preemptor, 1, workload)
    }

    /// A cluster in which all nodes differ, with four kinds of incoming pods; all nodes are candidates.
    pub fn of_crowd(n_nodes: usize, pods_per_node: usize) -> PreemptionTrial {
        let cluster = crowded_cluster(n_nodes, pods_per_node);
        PreemptionTrial::on(cluster, crowd_preemptor, N_CROWD_KINDS, PreemptionWorkload::All)
    }

    fn on(
        cluster: Arc<Cluster>,
        incoming: fn(usize) -> core_v1::Pod,
        n_kinds: usize,
        workload: PreemptionWorkload,
    ) -> PreemptionTrial {
        let mut residents = cluster.snapshot().pods();
        residents.sort_by(|a, b| a.node.cmp(&b.node));
        residents.dedup_by(|a, b| a.node == b.node);
        PreemptionTrial {
            residents: residents.into_iter().map(|resident| resident.pod).collect(),
            cluster,
            incoming,
            n_kinds,
            workload,
            policy: Policy::default(),
            next_pod: 0,
            next_shape: 0,
            next_row: 0,
        }
    }

    /// Time of the first attempt, for which nothing is cached.
    pub fn first(&mut self, threads: &ThreadPool) -> Duration {
        let pod = self.pod(0);
        self.attempt(threads, &pod)
    }

    /// Times of `n` attempts by kube-scheduler's procedure: pods of known shapes, one after another, after
    /// [`N_WARM_UP`] that are not timed.
    pub fn time_sequence(&mut self, threads: &ThreadPool, n: u64) -> Vec<Duration> {
        self.warm_up(threads);
        (0..n).map(|_| self.next(threads)).collect()
    }

    /// Times of `n` attempts for known shapes, each after a change of one node.
    pub fn one_row_changed(&mut self, threads: &ThreadPool, n: u64) -> Vec<Duration> {
        self.warm_up(threads);
        let changed = |trial: &mut PreemptionTrial| {
            trial.change_rows(1);
            trial.next(threads)
        };
        (0..n).map(|_| changed(self)).collect()
    }

    /// Times of `n` attempts for known shapes, each after a change of all nodes.
    pub fn every_row_changed(&mut self, threads: &ThreadPool, n: u64) -> Vec<Duration> {
        self.warm_up(threads);
        let changed = |trial: &mut PreemptionTrial| {
            trial.change_rows(trial.residents.len());
            trial.next(threads)
        };
        (0..n).map(|_| changed(self)).collect()
    }

    /// Times of `n` attempts, each for a new shape.
    pub fn new_shapes(&mut self, threads: &ThreadPool, n: u64) -> Vec<Duration> {
        (0..n)
            .map(|_| {
                self.next_shape += 1;
                let pod = (self.incoming)(self.next_shape);
                let pod = preemptor_of_new_shape(&self.cluster, pod, self.next_shape);
                self.attempt(threads, &pod)
            })
            .collect()
    }

    /// Times of `n` attempts that list all candidates, for known shapes.
    pub fn lists(&mut self, threads: &ThreadPool, n: u64) -> Vec<Duration> {
        self.warm_up(threads);
        (0..n)
            .map(|_| {
                self.next_pod += 1;
                let pod = self.pod(self.next_pod);
                let request = self.request(&pod);
                threads.install(|| {
                    let start = Instant::now();
                    let list = black_box(self.cluster.list_candidates(&request));
                    let time = start.elapsed();
                    let post_filter = list.ok().and_then(|list| list.preemption.post_filter);
                    assert!(is_helped(post_filter), "somebody can be evicted");
                    time
                })
            })
            .collect()
    }

    /// Makes one attempt for each kind.
    fn warm_up(&mut self, threads: &ThreadPool) {
        while self.next_pod < N_WARM_UP.max(self.n_kinds) {
            self.next(threads);
        }
    }

    fn next(&mut self, threads: &ThreadPool) -> Duration {
        self.next_pod += 1;
        let pod = self.pod(self.next_pod);
        self.attempt(threads, &pod)
    }

    fn pod(&self, k: usize) -> Pod {
        compiled_pod(&self.cluster, &(self.incoming)(k))
    }

    /// Times an attempt in the thread pool, of which the caller is one thread.
    fn attempt(&self, threads: &ThreadPool, pod: &Pod) -> Duration {
        let request = self.request(pod);
        threads.install(|| {
            let start = Instant::now();
            let attempt = black_box(self.cluster.preempt(&request));
            let time = start.elapsed();
            let post_filter = attempt.ok().and_then(|attempt| attempt.post_filter);
            assert!(is_helped(post_filter), "somebody can be evicted");
            time
        })
    }

    /// The request for a pod; its sample starts at a different node for each pod.
    fn request<'a>(&'a self, pod: &'a Pod) -> PreemptRequest<'a> {
        let seed = (self.next_pod + self.next_shape) as u64;
        let options: PreemptOptions = self.workload.options(seed);
        PreemptRequest {
            pod,
            policy: &self.policy,
            tie_break: TieBreak::Seeded(0),
            options,
            cancelled: &|| false,
            now: None,
        }
    }

    /// Removes and adds a pod on each of the next `n` nodes, which are distant from each other.
    fn change_rows(&mut self, n: usize) {
        let mut deltas = Vec::with_capacity(2 * n);
        for _ in 0..n {
            // 7919 is a prime, so consecutive nodes are distant.
            let resident = &self.residents[self.next_row * 7919 % self.residents.len()];
            self.next_row += 1;
            deltas.push(Delta::DeletePod { key: resident.key().clone(), uid: None });
            deltas.push(Delta::UpsertPod(resident.clone()));
        }
        let applied = self.cluster.apply(deltas);
        assert!(applied.rejected.is_empty(), "who left may come back");
    }
}

fn is_helped(post_filter: Option<PostFilter>) -> bool {
    post_filter.is_some_and(|it| it.chosen.is_some())
}

/// A pool of threads on which an attempt evaluates nodes concurrently.
pub fn threads(n_threads: usize) -> ThreadPool {
    match rayon::ThreadPoolBuilder::new().num_threads(n_threads).build() {
        Ok(threads) => threads,
        Err(error) => unreachable!("a machine that compiles has threads: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut trial: PreemptionTrial) {
        let n_before = trial.cluster.snapshot().n_pods();
        for threads in [threads(1), threads(2)] {
            assert!(trial.first(&threads) > Duration::ZERO);
            for time in [
                PreemptionTrial::time_sequence,
                PreemptionTrial::one_row_changed,
                PreemptionTrial::every_row_changed,
                PreemptionTrial::new_shapes,
                PreemptionTrial::lists,
            ] {
                let times = time(&mut trial, &threads, 4);
                assert!(times.len() == 4 && times.iter().all(|time| *time > Duration::ZERO));
            }
        }
        assert_eq!(trial.cluster.snapshot().n_pods(), n_before);
        assert_eq!(trial.residents.len(), trial.cluster.snapshot().n_nodes());
    }

    #[test]
    fn every_workload_can_be_timed_in_every_way_and_leaves_its_cluster_as_it_was() {
        for workload in PreemptionWorkload::ALL {
            check(PreemptionTrial::new(workload, 150, 10));
        }
        check(PreemptionTrial::of_crowd(100, 30));
    }

    #[test]
    fn only_the_rows_that_are_to_change_do() {
        let mut trial = PreemptionTrial::new(PreemptionWorkload::All, 10, 10);
        let before = trial.cluster.snapshot().generation();
        trial.change_rows(3);
        assert_eq!(trial.next_row, 3);
        assert!(trial.cluster.snapshot().generation() > before);
        assert_eq!(trial.cluster.snapshot().n_pods(), 100);
    }
}
