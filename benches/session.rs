//! What-if sessions at 5,000 nodes with 150,000 pods of every workload: opening, hypothetical deltas, the first
//! decision, and the commit.

use std::hint::black_box;
use std::sync::Arc;

use berth_benches::churn::{Cargo, churn};
use berth_benches::{N_NODES, Workload, cluster, incoming};
use berth_engine::{Cluster, Delta, Outcome, PlaceRequest, Pod, PodKey, Policy, TieBreak};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_DELTAS: usize = 100;

fn session(criterion: &mut Criterion) {
    let cluster = prepared();
    let mut group = criterion.benchmark_group("session/5000-nodes");
    group.bench_function("open", |bencher| bencher.iter_with_large_drop(|| cluster.fork()));
    group.bench_function("open-and-close", |bencher| bencher.iter(|| drop(cluster.fork())));

    let deltas: Vec<Delta> =
        (0..N_DELTAS).map(|k| churn(&cluster, k, N_NODES, Cargo::Labels).0).collect();
    group.bench_function("apply-100-deltas", |bencher| {
        bencher.iter_batched(
            || (cluster.fork(), deltas.clone()),
            |(fork, deltas)| {
                let applied = fork.apply(deltas);
                assert!(applied.rejected.is_empty(), "the baseline's pods are valid");
                (fork, applied)
            },
            BatchSize::PerIteration,
        );
    });

    let policy = Policy::default();
    // A plain pod, and a pod that is spread over zones and nodes.
    for (kind, k) in [("a-basic", 0), ("e1-spread-soft", 6)] {
        let pod = compiled(&cluster, k);
        let place = |fork: Cluster| {
            let decision = black_box(fork.place(&request(&pod, &policy)));
            assert!(decision.is_ok(), "the baseline's pods are decided");
            (fork, decision)
        };
        group.bench_function(format!("place-first/{kind}"), |bencher| {
            bencher.iter_batched(|| cluster.fork(), place, BatchSize::PerIteration);
        });
        group.bench_function(format!("place-first-after-100-deltas/{kind}"), |bencher| {
            let changed = || {
                let fork = cluster.fork();
                fork.apply(deltas.clone());
                fork
            };
            bencher.iter_batched(changed, place, BatchSize::PerIteration);
        });
        group.bench_function(format!("place-next/{kind}"), |bencher| {
            let fork = cluster.fork();
            bencher.iter(|| black_box(fork.place(&request(&pod, &policy))));
        });
    }

    for n_pods in [1, 100] {
        let pods: Vec<Pod> = (0..n_pods).map(|k| compiled(&cluster, k)).collect();
        group.bench_function(format!("commit-{n_pods}-pods"), |bencher| {
            bencher.iter_batched(
                || {
                    release(&cluster, &pods);
                    let fork = cluster.fork();
                    pods.iter().for_each(|pod| assume(&fork, pod, &policy));
                    fork
                },
                |fork| {
                    let committed = cluster.commit(&fork);
                    assert!(committed.is_ok_and(|it| it.n_assumed == n_pods));
                    fork
                },
                BatchSize::PerIteration,
            );
        });
        release(&cluster, &pods);
    }
    group.finish();
}

/// A cluster in which each kind of incoming pod was decided once, so that evaluations are cached.
fn prepared() -> Arc<Cluster> {
    let cluster = cluster(Workload::Mixed, N_NODES, 30);
    let policy = Policy::default();
    for k in 0..Workload::Mixed.n_kinds() {
        let pod = compiled(&cluster, k);
        let decision = cluster.place(&request(&pod, &policy));
        assert!(decision.is_ok(), "the baseline's pods are decided");
    }
    cluster
}

fn compiled(cluster: &Cluster, k: usize) -> Pod {
    match cluster.compile_pod(&incoming(k, Workload::Mixed)) {
        Ok(pod) => pod,
        Err(error) => unreachable!("the baseline's pods are valid: {error}"),
    }
}

fn request<'a>(pod: &'a Pod, policy: &'a Policy) -> PlaceRequest<'a> {
    PlaceRequest { pod, policy, tie_break: TieBreak::Seeded(0), now: None }
}

fn assume(fork: &Cluster, pod: &Pod, policy: &Policy) {
    let decision = fork.assume(&request(pod, policy));
    let is_placed = decision.is_ok_and(|it| matches!(it.outcome, Outcome::Placed(_)));
    assert!(is_placed, "the baseline's pods fit");
}

/// Removes the pods that a commit assumed.
fn release(cluster: &Cluster, pods: &[Pod]) {
    let key = |pod: &Pod| PodKey::new(&pod.key().namespace, &pod.key().name);
    cluster.apply(pods.iter().map(|pod| Delta::DeletePod { key: key(pod), uid: None }).collect());
}

criterion_group!(benches, session);
criterion_main!(benches);
