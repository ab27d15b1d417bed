//! Outcome of a preemption: self-contained plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::place::decision::{Decision, NodeVerdict};

/// A whole scheduling attempt, PostFilter included.
#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    /// The decision of `place`. When no node is feasible its message is kube-scheduler's whole text, including
    /// PostFilter's part (S-ERR-5).
    pub decision: Decision,
    /// The outcome of PostFilter; `None` where it does not run: the pod fits, is gated, or the profile has no
    /// PostFilter plugin.
    pub post_filter: Option<PostFilter>,
}

/// The outcome of PostFilter.
#[derive(Clone, Debug, PartialEq)]
pub struct PostFilter {
    /// Status of PostFilter.
    pub code: PostFilterCode,
    /// Message of PostFilter; empty after a successful preemption (S-ERR-6).
    pub message: String,
    /// Change of the pod's `status.nominatedNodeName`.
    pub nomination: Nomination,
    /// The chosen candidate, if any.
    pub chosen: Option<Candidate>,
    /// Number of tried nodes on which evicting pods helps.
    pub n_candidates: u32,
    /// Number of candidates that tie for the best in every criterion (S-PRE-19).
    pub n_best: u32,
    /// Pods of lower priority that lose their nomination to the chosen node (S-PRE-24), in the order of their
    /// nominations.
    pub cleared_nominations: Vec<PodKey>,
    /// What DynamicResources gives up so that the pod may fit the next time.
    pub given_up: GivenUp,
}

/// What DynamicResources gives up for a pod that fits nowhere (S-DRA-100).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GivenUp {
    /// Nothing.
    #[default]
    Nothing,
    /// The allocation of one of these claims, which are named without the pod's namespace and sorted. kube-scheduler
    /// takes any of them.
    OneOf(Vec<Arc<str>>),
    /// The claim of this name for extended resources, left from an earlier attempt.
    Extended(Arc<str>),
}

/// Status of PostFilter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PostFilterCode {
    /// A candidate was chosen.
    Success,
    /// No eviction helps, or the pod may not preempt.
    Unschedulable,
    /// A plugin failed.
    Error,
}

/// Change of `status.nominatedNodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nomination {
    /// The nomination stays as it is (S-PRE-4).
    Unchanged,
    /// The nomination is cleared (S-PRE-17).
    Cleared,
    /// The nomination is set to this node (S-PRE-21).
    Node(Arc<str>),
}

/// A node on which evicting pods makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Node name.
    pub node: Arc<str>,
    /// The pods to evict, the most important first (S-PRE-15).
    pub victims: Vec<Victim>,
    /// Number of victims whose eviction violates a disruption budget (S-PRE-14).
    pub n_pdb_violations: u32,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Namespace and name.
    pub pod: PodKey,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `spec.priority`.
    pub priority: i32,
    /// Whether the pod is being deleted already, so that no eviction has to be requested (S-PRE-22).
    pub is_terminating: bool,
    /// Where the victim could be placed now; `None` where that was not checked ([`crate::VictimPlacement`]).
    pub elsewhere: Option<Elsewhere>,
}

/// Where a victim could be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// The victim fits on this node.
    Node(Arc<str>),
    /// No node takes the victim, for this reason.
    Nowhere(String),
}

/// A whole attempt with every candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateList {
    /// The attempt; its chosen candidate is one of `best`.
    pub preemption: Preemption,
    /// Every node on which evicting pods helps, by name.
    pub candidates: Vec<Candidate>,
    /// Names of the nodes that tie for the best in every criterion (S-PRE-19), sorted.
    pub best: Vec<Arc<str>>,
    /// Tried nodes where evicting pods does not help, with the verdict on each with all pods of lower priority removed;
    /// by name.
    pub not_helped: Vec<NodeVerdict>,
}
