//! Phases and conditions a second on one thread for pods in all stages of their lifecycle, and whole evaluations with
//! the next action and the message of the response.

use std::hint::black_box;

use berth_benches::stages;
use berth_engine::lifecycle::condition::ConditionSet;
use berth_engine::lifecycle::evaluation::{self, Subject};
use berth_engine::lifecycle::phase::PhaseDecision;
use berth_proto::Time;
use berth_proto::berth_v1::EvaluatePodsRequest;
use berth_proto::core_v1::Pod;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time of the evaluation in seconds since the epoch.
const NOW: i64 = stages::NOW;
/// Numbers of pods a round: few, which stay in the cache like a pod that was just decoded, and many, which are read
/// from memory.
const ROUNDS: [(&str, usize); 2] = [("at-hand", 252), ("from-memory", 20_000)];

fn lifecycle(criterion: &mut Criterion) {
    for (round, n_pods) in ROUNDS {
        let pods: Vec<Pod> = (0..n_pods).map(stages::pod).collect();
        let mut group = criterion.benchmark_group(format!("lifecycle/{round}"));
        group.throughput(Throughput::Elements(n_pods as u64));
        group.bench_function("phase-and-conditions/mixed", |bencher| {
            bencher.iter(|| pods.iter().for_each(|pod| drop(black_box(phase_and_conditions(pod)))));
        });
        for (stage, name) in stages::NAMES.iter().enumerate() {
            let alike: Vec<&Pod> = pods.iter().skip(stage).step_by(stages::NAMES.len()).collect();
            group.throughput(Throughput::Elements(alike.len() as u64));
            group.bench_function(format!("phase-and-conditions/{name}"), |bencher| {
                bencher.iter(|| {
                    alike.iter().for_each(|pod| drop(black_box(phase_and_conditions(pod))));
                });
            });
        }
        let requests: Vec<EvaluatePodsRequest> = pods.into_iter().map(request).collect();
        group.throughput(Throughput::Elements(n_pods as u64));
        group.bench_function("evaluate/mixed", |bencher| {
            bencher.iter(|| {
                requests
                    .iter()
                    .for_each(|request| drop(black_box(evaluation::evaluate_pod(request))));
            });
        });
        group.finish();
    }
}

fn phase_and_conditions(pod: &Pod) -> (PhaseDecision<'_>, ConditionSet<'_>) {
    let subject = Subject::new(pod, NOW, None, None);
    match subject.and_then(|subject| evaluation::phase_and_conditions(&subject)) {
        Ok(decided) => decided,
        Err(error) => unreachable!("the pods are valid: {error}"),
    }
}

fn request(pod: Pod) -> EvaluatePodsRequest {
    EvaluatePodsRequest {
        pod: Some(pod),
        now: Some(Time::from_unix_seconds(NOW)),
        ..EvaluatePodsRequest::default()
    }
}

criterion_group!(benches, lifecycle);
criterion_main!(benches);
