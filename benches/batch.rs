//! A batch of 5,000 replicas of one shape, in process: dry run on a fork, and assumed into the snapshot.

use std::hint::black_box;

use berth_benches::{N_NODES, Workload, cluster, distinct_shape};
use berth_engine::{Cluster, Delta, Pod, PodKey, Policy, TieBreak};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_REPLICAS: usize = 5000;

fn batch(criterion: &mut Criterion) {
    let cluster = cluster(Workload::Basic, N_NODES, 30);
    let policy = Policy::default();
    let mut group = criterion.benchmark_group("batch/5000-nodes");
    group.sample_size(20);
    group.throughput(Throughput::Elements(N_REPLICAS as u64));
    for (name, assume) in [("5000-replicas-dry-run", false), ("5000-replicas-assumed", true)] {
        let mut round = 0;
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    round += 1;
                    release(&cluster, round - 1);
                    replicas(&cluster, round)
                },
                |pods| {
                    black_box(cluster.place_batch(
                        &pods,
                        &policy,
                        TieBreak::Seeded(0),
                        assume,
                        &|| false,
                    ))
                },
                BatchSize::PerIteration,
            );
        });
        release(&cluster, round);
    }
    group.finish();
}

fn replicas(cluster: &Cluster, round: usize) -> Vec<Pod> {
    let template = distinct_shape(cluster, 0, Workload::Basic);
    (0..N_REPLICAS)
        .map(|i| template.with_identity(key(round, i), &format!("uid-{round}-{i}")))
        .collect()
}

fn key(round: usize, i: usize) -> PodKey {
    PodKey::new("ns-0", &format!("replica-{round}-{i}"))
}

/// Gives back what a round took, if it took anything.
fn release(cluster: &Cluster, round: usize) {
    cluster.apply(
        (0..N_REPLICAS).map(|i| Delta::DeletePod { key: key(round, i), uid: None }).collect(),
    );
}

criterion_group!(benches, batch);
criterion_main!(benches);
