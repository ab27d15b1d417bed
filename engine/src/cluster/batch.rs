//! Batch: many pods in one call, by priority and then in the order of the request; each decision sees those before it.
//! Rule: S-Q-3 (priority, then arrival).

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Cluster;
use super::fork::Fork;
use crate::error::EngineError;
use crate::model::{Pod, PodKey};
use crate::place::decision::{Decision, Outcome};
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::preempt::outcome::PostFilter;
use crate::preempt::request::PreemptOptions;

/// A request to place many pods under one policy.
#[derive(Copy, Clone)]
pub struct BatchRequest<'a> {
    /// The pods, in the order of their arrival.
    pub pods: &'a [Pod],
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How ties between equal total scores are broken.
    pub tie_break: TieBreak,
    /// Whether the pods are assumed; otherwise the cluster is not changed.
    pub assume: bool,
    /// All-or-nothing placement; `None` where each pod is placed independently.
    pub gang: Option<Gang>,
    /// Called before each pod: once it returns true, the remaining pods get [`EngineError::Cancelled`], and a gang is
    /// not placed.
    pub cancelled: &'a dyn Fn() -> bool,
    /// The present time, see [`PlaceRequest::now`](crate::PlaceRequest::now).
    pub now: Option<i64>,
}

/// Options of an all-or-nothing placement.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// Minimum number of pods that must get a node, or else none does; 0 means all of them.
    pub min_count: usize,
    /// Whether and how pods of lower priority are evicted for members that fit nowhere.
    pub preempt: Option<PreemptOptions>,
}

/// Result of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOutcome {
    /// One result for each pod, in the order of the request.
    pub results: Vec<Result<Decision, EngineError>>,
    /// Result of the gang; `None` for an independent batch.
    pub gang: Option<GangOutcome>,
}

/// Result of a gang.
///
/// If the gang is not placed, its decisions show how far it got, and none of them takes effect. If it is placed, a
/// member that has a node but is not assumed is nominated to it (S-PRE-21): first the caller has to evict the victims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GangOutcome {
    /// Whether enough members got a node.
    pub placed: bool,
    /// Number of members that got a node.
    pub n_placed: usize,
    /// Members that got a node by evicting pods, in the order of decision. Empty where the gang is not placed: then no
    /// pod is to be evicted for it.
    pub preemptions: Vec<GangPreemption>,
    /// Positions in the request of all members that are nominated to a node (in a dry run: would be), in the order of
    /// decision. Empty where the gang is not placed.
    pub nominated: Vec<usize>,
}

/// The pods that a member evicts.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPreemption {
    /// Position of the member in the request.
    pub index: usize,
    /// The member's node, its victims, and the nominations that it clears (S-PRE-24).
    pub post_filter: PostFilter,
}

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

    fn assume_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let mut results = Results::of(request);
        for hold in decision_order(request.pods).chunks(HOLD) {
            let mut writer = self.writer();
            for &index in hold {
                let BatchRequest { pods, policy, tie_break, now, .. } = *request;
                let request = PlaceRequest { pod: &pods[index], policy, tie_break, now };
                results.set(index, || self.assume_next(&mut writer, &request));
            }
            self.publish(&mut writer);
        }
        results.outcome()
    }

    fn place_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let base = self.snapshot();
        let mut fork = Fork::of(&base, self.versions.clone(), &self.memo);
        let mut results = Results::of(request);
        for index in decision_order(request.pods) {
            let BatchRequest { pods, policy, tie_break, now, .. } = *request;
            let pod = &pods[index];
            results.set_once(index, || {
                let request = PlaceRequest { pod, policy, tie_break, now };
                let decided = fork.decide(&request, self.kernels)?;
                fork.commit(pod, &decided);
                Ok(decided.decision)
            });
        }
        results.outcome()
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
