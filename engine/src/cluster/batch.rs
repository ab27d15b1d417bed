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

/// Many pods, decided under one policy.
#[derive(Copy, Clone)]
pub struct BatchRequest<'a> {
    /// The pods, in the order of their arrival.
    pub pods: &'a [Pod],
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How equal totals are broken.
    pub tie_break: TieBreak,
    /// Whether the pods take their room; otherwise the cluster stays as it is.
    pub assume: bool,
    /// All or nothing; `None` where each pod is on its own.
    pub gang: Option<Gang>,
    /// Asked before each pod: once it answers true, the rest get [`EngineError::Cancelled`], and a gang is not placed.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// All or nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// So many pods must get a node, or none does; 0 means all of them.
    pub min_count: usize,
    /// Evict pods of lower priority for members that fit nowhere.
    pub preempt: Option<PreemptOptions>,
}

/// What came of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOutcome {
    /// One a pod, in the order of the request.
    pub results: Vec<Result<Decision, EngineError>>,
    /// `None` for an independent batch.
    pub gang: Option<GangOutcome>,
}

/// What came of a gang.
///
/// Where it is not placed, its decisions tell how far it came, and nothing of them stands. Where it is, a member that was placed
/// and is not assumed was promised its node (S-PRE-21): the victims, which are the caller's to evict, have to go first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GangOutcome {
    /// Whether enough members got a node.
    pub placed: bool,
    /// Members that got one.
    pub n_placed: usize,
    /// Members that got one by evicting, in the order of decision. Empty where the gang is not placed: nobody is to be evicted
    /// for it.
    pub preemptions: Vec<GangPreemption>,
    /// Positions in the request of all members that are promised a node, or would be were this no dry run, in the order of
    /// decision. Empty where the gang is not placed.
    pub nominated: Vec<usize>,
}

/// Whom a member displaces.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPreemption {
    /// Position of the member in the request.
    pub index: usize,
    /// Its node, its victims and whose nominations it takes (S-PRE-24).
    pub post_filter: PostFilter,
}

/// Pods that an independent batch decides in one hold of the writer's lock.
const HOLD: usize = 1024;

impl Cluster {
    /// Decides for many pods, one after another, each seeing those before it placed.
    ///
    /// Independent pods that are assumed take their room at once, on the newest state; those that are not are decided on a
    /// fork that is thrown away. A gang is decided on a fork and committed as a whole.
    pub fn place_batch(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        match request.gang {
            Some(gang) => self.place_gang(request, gang),
            None if request.assume => self.assume_each(request),
            None => self.place_each(request),
        }
    }

    fn assume_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let mut results = Results::of(request);
        for hold in turns(request.pods).chunks(HOLD) {
            let mut writer = self.writer();
            for &index in hold {
                let BatchRequest { pods, policy, tie_break, .. } = *request;
                results
                    .set(index, || self.assume_next(&mut writer, &pods[index], policy, tie_break));
            }
            self.publish(&mut writer);
        }
        results.outcome()
    }

    fn place_each(&self, request: &BatchRequest<'_>) -> BatchOutcome {
        let base = self.snapshot();
        let mut fork = Fork::of(&base, self.versions.clone(), &self.memo);
        let mut results = Results::of(request);
        for index in turns(request.pods) {
            let BatchRequest { pods, policy, tie_break, .. } = *request;
            let pod = &pods[index];
            results.set_once(index, || {
                let request = PlaceRequest { pod, policy, tie_break };
                let decided = fork.decide(&request, self.kernels)?;
                fork.commit(pod, &decided);
                Ok(decided.decision)
            });
        }
        results.outcome()
    }
}

/// The pods' positions, by priority, then arrival.
pub(super) fn turns(pods: &[Pod]) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..pods.len()).collect();
    turns.sort_by_key(|&index| Reverse(pods[index].priority()));
    turns
}

/// Results as they come, in whatever order.
pub(super) struct Results<'a> {
    pods: &'a [Pod],
    results: Vec<Result<Decision, EngineError>>,
    /// Where a pod of each name was decided last, or got its node.
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

    /// Decides for one pod, unless the caller has given up.
    fn set(&mut self, index: usize, decide: impl FnOnce() -> Result<Decision, EngineError>) {
        self.is_cancelled = self.is_cancelled || (self.cancelled)();
        if !self.is_cancelled {
            self.results[index] = decide();
        }
    }

    /// The same, where nobody else sees to it that a pod is placed once.
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

/// Where a pod was placed, if it was.
pub(super) fn node_of(result: &Result<Decision, EngineError>) -> Option<&Arc<str>> {
    match &result.as_ref().ok()?.outcome {
        Outcome::Placed(placement) => Some(&placement.node),
        Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
    }
}
