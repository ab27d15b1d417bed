//! Place one pod at 5,000 nodes and 150,000 pods, one thread: a new shape, and a known one after one row changed.

mod floor;

use std::hint::black_box;
use std::time::{Duration, Instant};

use berth_benches::{N_NODES, Workload, churn, cluster, distinct_shape};
use berth_engine::{PlaceRequest, Policy, TieBreak};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use floor::Floor;

const PODS_PER_NODE: usize = 30;
const WORKLOADS: [(&str, Workload); 3] = [
    ("basic", Workload::Basic),
    ("node-affinity", Workload::NodeAffinity),
    ("taints", Workload::Taints),
];

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place/5000-nodes");
    let columns = Floor::new(N_NODES);
    group.bench_function("floor", |bencher| bencher.iter(|| black_box(&columns).stream()));
    let policy = Policy::default();
    for (name, workload) in WORKLOADS {
        let cluster = cluster(workload, N_NODES, PODS_PER_NODE);
        let mut k = 0;
        group.bench_function(format!("{name}/new-shape"), |bencher| {
            bencher.iter_batched(
                || {
                    k += 1;
                    distinct_shape(&cluster, k, workload)
                },
                |pod| {
                    let request =
                        PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Seeded(0) };
                    black_box(cluster.place(&request)).is_ok()
                },
                BatchSize::SmallInput,
            );
        });
        let pod = distinct_shape(&cluster, 0, workload);
        let request = PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Seeded(0) };
        let mut k = 0;
        group.bench_function(format!("{name}/known-shape-one-row-changed"), |bencher| {
            bencher.iter_custom(|n_iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..n_iterations {
                    k += 1;
                    let (come, go) = churn(&cluster, k / 2, N_NODES);
                    cluster.apply(vec![if k % 2 == 0 { come } else { go }]);
                    let start = Instant::now();
                    let _ = black_box(cluster.place(&request));
                    total += start.elapsed();
                }
                total
            });
        });
    }
    group.finish();
}

criterion_group!(benches, place);
criterion_main!(benches);
