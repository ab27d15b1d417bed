//! Batch: many pods in one call, by priority and then in the order of the request; each decision sees those before it.
//! Rule: S-Q-3 (priority, then arrival).

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Cluster;
use super::batch_request::{BatchOutcome, BatchRequest};
use super::fork::Fork;
use super::observer::Attempt;
use crate::error::EngineError;
use crate::model::{Pod, PodKey};
use crate::place::decision::{Decision, Outcome};
use crate::plan::request::PlaceRequest;
use crate::snapshot::Generation;

/// Number of pods that an independent batch decides before it releases the writer's lock.
const HOLD: usize = 1024;

impl Cluster {
    /// Decides for many pods, one after another; each decision sees the earlier pods placed.
    ///
    /// Independent pods that are assumed take their room at once, on the newest state; otherwise they are decided on a
    /// fork that is discarded. A gang is decided on a fork and committed as a whole.
    pub fn place_batch(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        match request.gang {
            Some(gang) => self.place_gang(request, gang),
            None if request.assume => self.assume_each(request),
            None => self.place_each(request),
        }
    }

    /// Tells the observer, if there is one, of the pods of a batch that were decided on this generation.
    pub(super) fn tell_batch(
        &self,
        generation: Generation,
        request: &BatchRequest<'_>,
        positions: &[usize],
        outcome: &BatchOutcome,
    ) {
        self.tell(generation, || Attempt::Batch { request, positions, outcome });
    }

    fn assume_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let mut results = Results::of(request);
        let order = decision_order(request.pods);
        let mut generations = Vec::with_capacity(order.len().div_ceil(HOLD));
        for hold in order.chunks(HOLD) {
            let mut writer = self.writer();
            generations.push(writer.draft.snapshot.generation);
            for &index in hold {
                let BatchRequest { pods, policy, tie_break, now, .. } = *request;
                let request = PlaceRequest { pod: &pods[index], policy, tie_break, now };
                results.set(index, || self.assume_next(&mut writer, &request));
            }
            self.publish(&mut writer);
        }
        let outcome = results.outcome();
        for (hold, generation) in order.chunks(HOLD).zip(generations) {
            self.tell_batch(generation, request, hold, &outcome);
        }
        outcome
    }

    fn place_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let base = self.snapshot();
        let mut fork = Fork::of(&base, self.versions.clone(), &self.memo);
        let mut results = Results::of(request);
        let mut order = decision_order(request.pods);
        for &index in &order {
            let BatchRequest { pods, policy, tie_break, now, .. } = *request;
            let pod = &pods[index];
            results.set_once(index, || {
                let request = PlaceRequest { pod, policy, tie_break, now };
                let decided = fork.decide(&request, self.kernels)?;
                fork.commit(pod, &decided);
                Ok(decided.decision)
            });
        }
        let outcome = results.outcome();
        order.sort_unstable();
        self.tell_batch(base.generation, request, &order, &outcome);
        outcome
    }
}

/// Positions of the pods by priority, then arrival.
pub(super) fn decision_order(pods: &[Pod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_key(|&index| Reverse(pods[index].priority()));
    order
}

/// Results of a batch, which may be set in any order.
pub(super) struct Results<'a> {
    pods: &'a [Pod],
    results: Vec<Result<Decision, EngineError>>,
    /// Position of the latest decision for, or node of, the pod of each name.
    decided: FxHashMap<&'a PodKey, usize>,
    cancelled: &'a dyn Fn() -> bool,
    is_cancelled: bool,
}

impl<'a> Results<'a> {
    pub(super) fn of(request: &BatchRequest<'a>) -> Results<'a> {
        let BatchRequest { pods, cancelled, .. } = *request;
        let results = vec![Err(EngineError::Cancelled); pods.len()];
        Results { pods, results, decided: FxHashMap::default(), cancelled, is_cancelled: false }
    }

    /// Decides for one pod, unless the request was cancelled.
    fn set(&mut self, index: usize, decide: impl FnOnce() -> Result<Decision, EngineError>) {
        self.is_cancelled = self.is_cancelled || (self.cancelled)();
        if !self.is_cancelled {
            self.results[index] = decide();
        }
    }

    /// Decides for one pod, unless the request was cancelled or a pod of its name was placed earlier in the batch.
    pub(super) fn set_once(
        &mut self,
        index: usize,
        decide: impl FnOnce() -> Result<Decision, EngineError>,
    ) {
        if self.decided.is_empty() {
            self.decided.reserve(self.pods.len());
        }
        let key = self.pods[index].key();
        let at = self.decided.entry(key).or_insert(index);
        match node_of(&self.results[*at]).cloned() {
            Some(node) => {
                let pod = key.clone();
                self.set(index, || Err(EngineError::AlreadyPlaced { pod, node }));
            }
            None => {
                *at = index;
                self.set(index, decide);
            }
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    fn outcome(self) -> BatchOutcome {
        BatchOutcome { results: self.results, gang: None }
    }

    pub(super) fn into_results(self) -> Vec<Result<Decision, EngineError>> {
        self.results
    }
}

/// The node of a placement, if the result is one.
pub(super) fn node_of(result: &Result<Decision, EngineError>) -> Option<&Arc<str>> {
    match &result.as_ref().ok()?.outcome {
        Outcome::Placed(placement) => Some(&placement.node),
        Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
    }
}
