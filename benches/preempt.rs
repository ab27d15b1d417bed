//! Preemption for one pod at 5,000 nodes without room: one call on one thread and on two. All nodes are candidates
//! unless the name contains `sampled`.
//!
//! `i1` and `i2` are kube-scheduler's workloads; `crowd` is a cluster in which all nodes differ, with disruption
//! budgets over a third of its pods, host ports, anti-affinity, hard spread and taints. `peer.rs` compares with
//! kube-scheduler.

use std::time::Duration;

use berth_benches::trial::preemption::{PreemptionTrial, threads};
use berth_benches::{N_NODES, PreemptionWorkload};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use rayon::ThreadPool;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_NODE: [usize; 2] = [10, 30];
const N_THREADS: [(usize, &str); 2] = [(1, "one-thread"), (2, "two-threads")];

type Times = fn(&mut PreemptionTrial, &ThreadPool, u64) -> Vec<Duration>;
const WAYS: [(&str, Times); 5] = [
    ("in-turn", PreemptionTrial::time_sequence),
    ("known-shape-one-row-changed", PreemptionTrial::one_row_changed),
    ("known-shape-every-row-changed", PreemptionTrial::every_row_changed),
    ("new-shape", PreemptionTrial::new_shapes),
    ("list-candidates", PreemptionTrial::lists),
];

fn preempt(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("preempt/5000-nodes");
    group.sample_size(20);
    for workload in PreemptionWorkload::ALL {
        for pods_per_node in PODS_PER_NODE {
            let name = format!("{}/{}k-pods", workload.name(), N_NODES * pods_per_node / 1000);
            bench(&mut group, &name, &|| PreemptionTrial::new(workload, N_NODES, pods_per_node));
        }
    }
    bench(&mut group, "crowd/150k-pods", &|| PreemptionTrial::of_crowd(N_NODES, 30));
    group.finish();
}

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    build: &dyn Fn() -> PreemptionTrial,
) {
    // Built lazily: a filter may exclude all of its benches.
    let mut built: Option<PreemptionTrial> = None;
    for (way, times) in WAYS {
        for (n_threads, side_by_side) in N_THREADS {
            let threads = threads(n_threads);
            group.bench_function(format!("{name}/{way}/{side_by_side}"), |bencher| {
                let trial = built.get_or_insert_with(build);
                bencher.iter_custom(|n| times(trial, &threads, n).into_iter().sum());
            });
        }
    }
}

criterion_group!(benches, preempt);
criterion_main!(benches);
