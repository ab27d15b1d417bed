//! Placements by `Place` and `PlaceBatch`.

use berth_client::code::Effect;
use berth_client::code_name;
use berth_proto::berth_v1::{
    BatchEntry, Gang, PlaceBatchRequest, PlaceMode, PlaceRequest, PlaceResult, place_result,
};
use berth_proto::core_v1::Pod;
use berth_synthetic::workload::renamed;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tonic::Code;

use super::Actor;
use super::pods::ActorPods;
use crate::soak::names::{Names, random_stream};
use crate::soak::world::World;

/// The wire value of assuming or of a dry run.
pub(super) fn mode(assume: bool) -> i32 {
    (if assume { PlaceMode::Assume } else { PlaceMode::DryRun }).into()
}

/// The time to live to ask for: none, because a run may take hours, and the model knows no time.
pub(super) fn ttl(assume: bool) -> Option<u64> {
    assume.then_some(0)
}

/// Whether a call that ended with `code` may or may not have assumed its pods.
pub(super) fn is_uncertain(code: Code) -> bool {
    Effect::of(code) == Effect::Unknown
}

/// The actor of `Place` calls.
pub(super) struct Place {
    rng: ChaCha8Rng,
    names: Names,
    pods: ActorPods,
}

impl Place {
    pub(super) fn new(seed: u64, max_pods: usize) -> Place {
        Place {
            rng: random_stream(seed, 1),
            names: Names::new("place"),
            pods: ActorPods::new(max_pods),
        }
    }
}

impl Actor for Place {
    fn name(&self) -> &'static str {
        "place"
    }

    async fn step(&mut self, world: &World) {
        if self.pods.is_full() || self.rng.random_bool(0.4) {
            return self.pods.update_one(world, &mut self.rng).await;
        }
        let pod = self.names.pod(&world.pod_templates, &mut self.rng);
        let assume = self.rng.random_bool(0.7);
        let request = PlaceRequest {
            pod: Some(pod.clone().into()),
            mode: mode(assume),
            assume_ttl_ms: ttl(assume),
            ..PlaceRequest::default()
        };
        let mut placement = world.client.placement(1);
        match world.call("Place", placement.place(request)).await {
            Ok(answer) => {
                let decision = answer.decision.unwrap_or_default();
                self.pods.record(world, &pod, &decision, assume);
            }
            Err(status) if assume && is_uncertain(status.code()) => world.uncertain([&pod]),
            Err(_) => {}
        }
    }
}

/// The actor of `PlaceBatch` calls, with replicas and gangs.
pub(super) struct Batch {
    rng: ChaCha8Rng,
    names: Names,
    pods: ActorPods,
}

impl Batch {
    pub(super) fn new(seed: u64, max_pods: usize) -> Batch {
        Batch {
            rng: random_stream(seed, 2),
            names: Names::new("batch"),
            pods: ActorPods::new(max_pods),
        }
    }
}

impl Actor for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    async fn step(&mut self, world: &World) {
        if self.pods.is_full() || self.rng.random_bool(0.6) {
            for _ in 0..6 {
                self.pods.update_one(world, &mut self.rng).await;
            }
            return;
        }
        let (entries, pods) = entries(&mut self.names, world, &mut self.rng);
        let assume = self.rng.random_bool(0.6);
        let is_gang = self.rng.random_bool(0.2);
        let request = PlaceBatchRequest {
            entries,
            mode: mode(assume),
            gang: is_gang.then(Gang::default),
            assume_ttl_ms: ttl(assume),
            ..PlaceBatchRequest::default()
        };
        let mut placement = world.client.placement(2);
        match world.call("PlaceBatch", placement.place_batch(request)).await {
            Ok(answer) => {
                if is_gang != answer.gang.is_some() {
                    world.differs("the response to a gang has no gang outcome, or the response to a batch has one");
                }
                // The results of a gang that is not placed only explain the attempt.
                if answer.gang.is_none_or(|gang| gang.placed) {
                    record_results(&mut self.pods, world, &pods, &answer.results, assume);
                }
            }
            Err(status) if assume && is_uncertain(status.code()) => world.uncertain(&pods),
            Err(_) => {}
        }
    }
}

/// A few random entries, with the pods that they expand to.
pub(super) fn entries(
    names: &mut Names,
    world: &World,
    rng: &mut ChaCha8Rng,
) -> (Vec<BatchEntry>, Vec<Pod>) {
    let (mut entries, mut pods) = (Vec::new(), Vec::new());
    for _ in 0..rng.random_range(1..=3) {
        let pod = names.pod(&world.pod_templates, rng);
        let replicas = rng.random_range(0..=4_u32);
        if replicas < 2 {
            pods.push(pod.clone());
        } else {
            let name = pod.metadata.as_ref().map(|it| it.name.clone()).unwrap_or_default();
            pods.extend((0..replicas).map(|n| renamed(&pod, &format!("{name}-{n}"))));
        }
        entries.push(BatchEntry { pod: Some(pod.into()), replicas });
    }
    (entries, pods)
}

/// Records one result a pod.
pub(super) fn record_results(
    actor_pods: &mut ActorPods,
    world: &World,
    pods: &[Pod],
    results: &[PlaceResult],
    assume: bool,
) {
    if pods.len() != results.len() {
        world.differs(format!("{} results for {} pods", results.len(), pods.len()));
        world.uncertain(pods);
        return;
    }
    for (pod, result) in pods.iter().zip(results) {
        match &result.result {
            Some(place_result::Result::Decision(decision)) => {
                actor_pods.record(world, pod, decision, assume);
            }
            Some(place_result::Result::Error(error)) => {
                let code = Code::from_i32(error.code);
                world.failed("a pod among many", code_name(code), &error.message);
                if assume && is_uncertain(code) {
                    world.uncertain([pod]);
                }
            }
            None => world.differs("a result is neither decision nor error"),
        }
    }
}
