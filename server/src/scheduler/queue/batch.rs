//! Batch: the pods at the head of the queue that one call of the engine decides.
//!
//! Pods of one priority and one profile: a pod that finds no node may preempt others, and what has a lower priority must not
//! have been placed by then. A group is a batch of its own.

use std::sync::Arc;
use std::time::Instant;

use super::entry::AttemptId;
use crate::scheduler::group::GroupName;
use crate::scheduler::pending::Pending;

/// A pod whose turn it is.
#[derive(Clone, Debug)]
pub struct Popped {
    /// What its outcome is to be told with.
    pub attempt: AttemptId,
    /// The pod.
    pub pending: Arc<Pending>,
    /// When it was first ready to be tried.
    pub since: Instant,
    /// Its attempts, this one included.
    pub n_attempts: u32,
    /// Whether it is tried again only because it waited for so long.
    pub was_flushed: bool,
}

/// Pods of one priority and profile, or one group, in the order of the queue.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The scheduler name of their profile.
    pub profile: Arc<str>,
    /// Where they are a group.
    pub group: Option<GroupTurn>,
    /// At least one.
    pub pods: Vec<Popped>,
}

/// A group whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTurn {
    /// Which.
    pub name: GroupName,
    /// How many of its pods must have a node.
    pub min_available: usize,
    /// How many have one, or are about to get it.
    pub n_placed: usize,
}
