//! What `preempt` answers: plain data that leaves nothing to look up.

use std::sync::Arc;

use crate::model::PodKey;
use crate::place::decision::{Decision, NodeVerdict};

/// A whole scheduling attempt, PostFilter included.
#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    /// As `place` would have decided. When no node is feasible its message is kube-scheduler's whole text, PostFilter's part
    /// included (S-ERR-5).
    pub decision: Decision,
    /// What PostFilter came to; `None` where it does not run: the pod fits, is gated, or the profile has none.
    pub post_filter: Option<PostFilter>,
}

/// The outcome of PostFilter.
#[derive(Clone, Debug, PartialEq)]
pub struct PostFilter {
    /// Its status.
    pub code: PostFilterCode,
    /// Its text; empty after a successful preemption (S-ERR-6).
    pub message: String,
    /// What becomes of the pod's `status.nominatedNodeName`.
    pub nomination: Nomination,
    /// The candidate chosen, when there is one.
    pub chosen: Option<Candidate>,
    /// Nodes on which evicting pods helps, of those that were tried.
    pub n_candidates: u32,
    /// How many of them are equal to the last (S-PRE-19).
    pub n_best: u32,
    /// Pods of lower priority that lose their nomination to the chosen node (S-PRE-24), in the order of their nominations.
    pub cleared_nominations: Vec<PodKey>,
}

/// Status of PostFilter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PostFilterCode {
    /// A candidate was chosen.
    Success,
    /// Nothing helps, or the pod may not preempt.
    Unschedulable,
    /// A plugin failed.
    Error,
}

/// What becomes of `status.nominatedNodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nomination {
    /// It stays as it is (S-PRE-4).
    Unchanged,
    /// It is cleared (S-PRE-17).
    Cleared,
    /// It is set to this node (S-PRE-21).
    Node(Arc<str>),
}

/// A node on which evicting pods makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Node name.
    pub node: Arc<str>,
    /// The pods to evict, the most important first (S-PRE-15).
    pub victims: Vec<Victim>,
    /// How many of them a disruption budget would keep (S-PRE-14).
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
    /// Whether it is being deleted already, so that no eviction is to be asked for (S-PRE-22).
    pub is_terminating: bool,
    /// Where it could be placed now; `None` where that was not looked at ([`crate::VictimPlacement`]).
    pub elsewhere: Option<Elsewhere>,
}

/// Where a victim could go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// To this node.
    Node(Arc<str>),
    /// Nowhere, and why.
    Nowhere(String),
}

/// A whole attempt with every candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateList {
    /// The attempt; what it chose is one of `best`.
    pub preemption: Preemption,
    /// Every node on which evicting pods helps, by name.
    pub candidates: Vec<Candidate>,
    /// Names of those that are equal to the last (S-PRE-19), sorted.
    pub best: Vec<Arc<str>>,
    /// Nodes that were tried and are not helped, with the verdict on each as if all pods of lower priority were gone; by name.
    pub not_helped: Vec<NodeVerdict>,
}
