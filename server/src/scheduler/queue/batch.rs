//! Batch: the pods at the head of the queue that one call of the engine decides.
//!
//! All pods have one priority and one profile: a pod that finds no node may preempt others, and pods of lower priority
//! must not have been placed by then. A group is a batch of its own.

use std::sync::Arc;
use std::time::Instant;

use super::entry::AttemptId;
use crate::scheduler::group::GroupName;
use crate::scheduler::pending::Pending;

/// A pod whose attempt begins.
#[derive(Clone, Debug)]
pub struct Popped {
    /// Id of the attempt, for its outcome.
    pub attempt: AttemptId,
    /// The pod.
    pub pending: Arc<Pending>,
    /// When the pod was first ready to be tried.
    pub since: Instant,
    /// Number of the pod's attempts, including this one.
    pub n_attempts: u32,
    /// Whether the pod is tried again only because it waited for so long.
    pub was_flushed: bool,
}

/// Pods of one priority and profile, or one group, in the order of the queue.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Scheduler name of the pods' profile.
    pub profile: Arc<str>,
    /// The group, if the pods are one.
    pub group: Option<GroupTurn>,
    /// The pods, at least one.
    pub pods: Vec<Popped>,
}

/// A group whose attempt begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTurn {
    /// Name of the group.
    pub name: GroupName,
    /// Number of its pods that must have a node.
    pub min_available: usize,
    /// Number of its pods that have a node, or are about to get one.
    pub n_placed: usize,
}
