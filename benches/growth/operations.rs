//! Operations other than a decision on a cluster of the largest size, each beside its budget.

use std::hint::black_box;
use std::time::{Duration, Instant};

use berth_benches::churn::{Cargo, churn};
use berth_benches::trial::percentile;
use berth_benches::trial::preemption::{PreemptionTrial, threads};
use berth_benches::{PreemptionWorkload, Workload, cluster, distinct_shape};
use berth_engine::{BatchRequest, Cluster, Delta, Pod, PodKey, Policy, TieBreak};

use super::{PODS_PER_NODE, met};

/// Number of times that an operation is measured.
const N_TIMED: u64 = 20;
/// Number of deltas that are applied at a time.
const N_DELTAS: usize = 1_000;
const N_REPLICAS: usize = 50_000;

/// Measures and prints all of them.
pub(super) fn measure(n_nodes: usize) {
    let say = |what: &str, figure: &str, budget: &str, is_met: bool| {
        println!("growth/{n_nodes}-nodes {what}: {figure}; budget {budget}, {}", met(is_met));
    };
    let plain = cluster(Workload::Basic, n_nodes, PODS_PER_NODE);
    let us = median(100, || timed(|| plain.fork())) * 1e6;
    say("opening a session", &format!("{us:.1} µs"), "≤ 50 µs", us <= 50.0);
    let rate = 2.0 * N_DELTAS as f64 / median(N_TIMED, || apply(&plain, n_nodes));
    say("pod deltas", &format!("{rate:.0} a second"), "≥ 500,000", rate >= 500_000.0);
    let ms = median(5, || place_batch(&plain)) * 1e3;
    say("dry run of 50,000 replicas", &format!("{ms:.0} ms"), "≤ 150 ms", ms <= 150.0);
    drop(plain);
    let mut trial = PreemptionTrial::new(PreemptionWorkload::All, n_nodes, PODS_PER_NODE);
    let times = trial.new_shapes(&threads(2), N_TIMED);
    let ms = percentile(times.into_iter(), 50).as_secs_f64() * 1e3;
    say("preemption, a new shape", &format!("{ms:.1} ms"), "≤ 20 ms", ms <= 20.0);
}

/// The median time of an operation, in seconds.
fn median(n: u64, mut operation: impl FnMut() -> Duration) -> f64 {
    percentile((0..n).map(|_| operation()), 50).as_secs_f64()
}

/// The time of an operation, without that of dropping what it returns.
fn timed<T>(operation: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    let outcome = black_box(operation());
    let time = began.elapsed();
    drop(outcome);
    time
}

/// Adds pods all over the cluster and removes them.
fn apply(cluster: &Cluster, n_nodes: usize) -> Duration {
    let deltas = (0..N_DELTAS).map(|k| churn(cluster, k, n_nodes, Cargo::Labels));
    let (come, go): (Vec<Delta>, Vec<Delta>) = deltas.unzip();
    timed(|| (cluster.apply(come), cluster.apply(go)))
}

fn place_batch(cluster: &Cluster) -> Duration {
    let template = distinct_shape(cluster, 0, Workload::Basic);
    let replica = |i| {
        let key = PodKey::new("ns-0", &format!("replica-{i}"));
        template.with_identity(key, &format!("uid-{i}"))
    };
    let pods: Vec<Pod> = (0..N_REPLICAS).map(replica).collect();
    let request = BatchRequest {
        pods: &pods,
        policy: &Policy::default(),
        tie_break: TieBreak::Seeded(0),
        assume: false,
        gang: None,
        cancelled: &|| false,
        now: None,
    };
    timed(|| cluster.place_batch(&request))
}
