//! Batches of replicas of one shape, in process, as dry run on a fork and assumed into the snapshot: 5,000 independent
//! pods, gangs of 64 and 5,000, and gangs of 64 and 13,000 that preempt other pods.

use std::hint::black_box;

use berth_benches::workload::{full_cluster, preemptor, preemptor_of_new_shape};
use berth_benches::{N_NODES, Workload, cluster, distinct_shape};
use berth_engine::{
    BatchOutcome, BatchRequest, Cluster, Delta, Gang, Pod, PodKey, Policy, PreemptOptions, TieBreak,
};
use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A batch with its cluster.
struct Batch {
    name: &'static str,
    n_pods: usize,
    gang: Option<Gang>,
}

const GANG: Gang = Gang { min_count: 0, preempt: None };
const BATCHES: [Batch; 3] = [
    Batch { name: "5000-replicas", n_pods: 5000, gang: None },
    Batch { name: "gang-of-5000", n_pods: 5000, gang: Some(GANG) },
    Batch { name: "gang-of-64", n_pods: 64, gang: Some(GANG) },
];

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch/5000-nodes");
    group.sample_size(20);
    let roomy = cluster(Workload::Basic, N_NODES, 30);
    let template = distinct_shape(&roomy, 0, Workload::Basic);
    for batch in BATCHES {
        bench(&mut group, &roomy, &template, &batch);
    }
    drop(roomy);
    let full = full_cluster(N_NODES, 30);
    let template = preemptor_of_new_shape(&full, preemptor(0), 0);
    let gang = Some(Gang { preempt: Some(PreemptOptions::default()), ..GANG });
    for (name, n_pods) in [("gang-of-64-preempting", 64), ("gang-of-13000-preempting", 13_000)] {
        bench(&mut group, &full, &template, &Batch { name, n_pods, gang });
    }
    group.finish();
}

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    cluster: &Cluster,
    template: &Pod,
    batch: &Batch,
) {
    let policy = Policy::default();
    group.throughput(Throughput::Elements(batch.n_pods as u64));
    for (way, assume) in [("dry-run", false), ("assumed", true)] {
        let mut round = 0;
        group.bench_function(format!("{}-{way}", batch.name), |bencher| {
            bencher.iter_batched(
                || {
                    release(cluster, batch, round);
                    round += 1;
                    replicas(template, batch, round)
                },
                |pods| {
                    let outcome = black_box(cluster.place_batch(&BatchRequest {
                        pods: &pods,
                        policy: &policy,
                        tie_break: TieBreak::Seeded(0),
                        assume,
                        gang: batch.gang,
                        cancelled: &|| false,
                        now: None,
                    }));
                    assert!(is_placed(&outcome), "there is room for the batch");
                    (outcome, pods)
                },
                BatchSize::PerIteration,
            );
        });
        release(cluster, batch, round);
    }
}

fn is_placed(outcome: &BatchOutcome) -> bool {
    outcome.gang.as_ref().is_none_or(|gang| gang.placed)
        && outcome.results.iter().all(Result::is_ok)
}

fn replicas(template: &Pod, batch: &Batch, round: usize) -> Vec<Pod> {
    (0..batch.n_pods)
        .map(|i| template.with_identity(key(round, i), &format!("uid-{round}-{i}")))
        .collect()
}

fn key(round: usize, i: usize) -> PodKey {
    PodKey::new("ns-0", &format!("replica-{round}-{i}"))
}

/// Removes the pods that a round assumed.
fn release(cluster: &Cluster, batch: &Batch, round: usize) {
    cluster.apply(
        (0..batch.n_pods).map(|i| Delta::DeletePod { key: key(round, i), uid: None }).collect(),
    );
}

criterion_group!(benches, batch);
criterion_main!(benches);
