//! Placements, one pod a call and many pods a call.

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
use super::held::Held;
use crate::soak::names::{Names, stream};
use crate::soak::world::World;

/// The wire's word for taking room or not.
pub(super) fn mode(assume: bool) -> i32 {
    (if assume { PlaceMode::Assume } else { PlaceMode::DryRun }).into()
}

/// Whether a refusal leaves it open what became of the call's pods.
pub(super) fn leaves_open(code: Code) -> bool {
    !matches!(
        code,
        Code::InvalidArgument
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::AlreadyExists
            | Code::Unimplemented
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
    )
}

/// `Place`.
pub(super) struct Place {
    rng: ChaCha8Rng,
    names: Names,
    held: Held,
}

impl Place {
    pub(super) fn new(seed: u64, most: usize) -> Place {
        Place { rng: stream(seed, 1), names: Names::of("place"), held: Held::new(most) }
    }
}

impl Actor for Place {
    fn name(&self) -> &'static str {
        "place"
    }

    async fn step(&mut self, world: &World) {
        if self.held.is_full() || self.rng.random_bool(0.4) {
            return self.held.tend(world, &mut self.rng).await;
        }
        let pod = self.names.pod(&world.pod_templates, &mut self.rng);
        let assume = self.rng.random_bool(0.7);
        let request = PlaceRequest {
            pod: Some(pod.clone().into()),
            mode: mode(assume),
            ..PlaceRequest::default()
        };
        let mut placement = world.client.placement(1);
        match world.call("Place", placement.place(request)).await {
            Ok(answer) => {
                let decision = answer.decision.unwrap_or_default();
                self.held.take(world, &pod, &decision, assume);
            }
            Err(status) if assume && leaves_open(status.code()) => world.unsettled([&pod]),
            Err(_) => {}
        }
    }
}

/// `PlaceBatch`, with replicas and gangs.
pub(super) struct Batch {
    rng: ChaCha8Rng,
    names: Names,
    held: Held,
}

impl Batch {
    pub(super) fn new(seed: u64, most: usize) -> Batch {
        Batch { rng: stream(seed, 2), names: Names::of("batch"), held: Held::new(most) }
    }
}

impl Actor for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    async fn step(&mut self, world: &World) {
        if self.held.is_full() || self.rng.random_bool(0.6) {
            for _ in 0..6 {
                self.held.tend(world, &mut self.rng).await;
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
            ..PlaceBatchRequest::default()
        };
        let mut placement = world.client.placement(2);
        match world.call("PlaceBatch", placement.place_batch(request)).await {
            Ok(answer) => {
                if is_gang != answer.gang.is_some() {
                    world.differs("a gang is answered as none, or the other way round");
                }
                // Of a gang that is not placed, the results are an account of what was tried.
                if answer.gang.is_none_or(|gang| gang.placed) {
                    take(&mut self.held, world, &pods, &answer.results, assume);
                }
            }
            Err(status) if assume && leaves_open(status.code()) => world.unsettled(&pods),
            Err(_) => {}
        }
    }
}

/// A few entries, and the pods that they stand for.
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
        entries.push(BatchEntry { pod: Some(pod), replicas });
    }
    (entries, pods)
}

/// Takes one result a pod.
pub(super) fn take(
    held: &mut Held,
    world: &World,
    pods: &[Pod],
    results: &[PlaceResult],
    assume: bool,
) {
    if pods.len() != results.len() {
        world.differs(format!("{} results for {} pods", results.len(), pods.len()));
        world.unsettled(pods);
        return;
    }
    for (pod, result) in pods.iter().zip(results) {
        match &result.result {
            Some(place_result::Result::Decision(decision)) => {
                held.take(world, pod, decision, assume);
            }
            Some(place_result::Result::Error(error)) => {
                let code = Code::from_i32(error.code);
                world.failed("a pod among many", code_name(code), &error.message);
                if assume && leaves_open(code) {
                    world.unsettled([pod]);
                }
            }
            None => world.differs("a result that holds nothing"),
        }
    }
}
