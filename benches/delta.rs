//! Application of pod deltas in batches, all indexes included: binds and deletions a second, by features of the pods.

use std::hint::black_box;
use std::sync::Arc;

use berth_benches::churn::{Cargo, churn, storage};
use berth_benches::{N_NODES, Workload, cluster, incoming};
use berth_engine::{Cluster, PlaceRequest, Policy, TieBreak};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const BATCH: usize = 1000;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn delta(criterion: &mut Criterion) {
    let cluster = prepared();
    let mut group = criterion.benchmark_group("delta/5000-nodes");
    group.throughput(Throughput::Elements(2 * BATCH as u64));
    for (cargo, name) in Cargo::ALL {
        group.bench_function(format!("bind-and-delete/{name}"), |bencher| {
            bencher.iter_batched(
                || {
                    (0..BATCH)
                        .map(|k| churn(&cluster, k, N_NODES, cargo))
                        .unzip::<_, _, Vec<_>, Vec<_>>()
                },
                |(come, go)| {
                    let (come, go) = (cluster.apply(come), cluster.apply(go));
                    assert!(come.rejected.is_empty() && go.rejected.is_empty());
                    black_box((come, go))
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// A cluster in which every index has entries: it has pods with affinity terms and volumes, and each kind of incoming
/// pod was decided once, so that all selectors are known.
fn prepared() -> Arc<Cluster> {
    let cluster = cluster(Workload::Mixed, N_NODES, 30);
    let stored = cluster.apply(storage(&cluster, BATCH, N_NODES));
    assert!(stored.rejected.is_empty(), "the volumes are valid");
    let policy = Policy::default();
    for k in 0..Workload::Mixed.n_kinds() {
        let pod = cluster.compile_pod(&incoming(k, Workload::Mixed));
        let decision = pod.map(|pod| {
            cluster.place(&PlaceRequest {
                pod: &pod,
                policy: &policy,
                tie_break: TieBreak::Seeded(0),
                now: None,
            })
        });
        assert!(matches!(decision, Ok(Ok(_))), "the baseline's pods are decided");
    }
    cluster
}

criterion_group!(benches, delta);
criterion_main!(benches);
