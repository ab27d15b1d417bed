//! Batch request: many pods in one call, and what came of it; plain data.

use crate::error::EngineError;
use crate::model::Pod;
use crate::place::decision::Decision;
use crate::plan::request::TieBreak;
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
