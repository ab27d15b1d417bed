//! Apply pod deltas, every index included, in batches: binds and deletions a second.

use std::hint::black_box;

use berth_benches::{N_NODES, Workload, churn, cluster};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const BATCH: usize = 1000;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn delta(criterion: &mut Criterion) {
    let cluster = cluster(Workload::Basic, N_NODES, 30);
    let mut group = criterion.benchmark_group("delta/5000-nodes");
    group.throughput(Throughput::Elements(2 * BATCH as u64));
    group.bench_function("bind-and-delete", |bencher| {
        bencher.iter_batched(
            || (0..BATCH).map(|k| churn(&cluster, k, N_NODES)).unzip::<_, _, Vec<_>, Vec<_>>(),
            |(come, go)| {
                black_box(cluster.apply(come));
                black_box(cluster.apply(go))
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, delta);
criterion_main!(benches);
