//! Entry: the record of one pending pod, and the state that it is in.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use berth_engine::PodKey;

use crate::scheduler::hints::Changes;
use crate::scheduler::pending::Pending;
use crate::scheduler::plugin_set::PluginSet;

/// Names one attempt of one pod; what comes of an attempt that is not the last is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttemptId {
    pub(super) key: PodKey,
    pub(super) number: u64,
}

/// Position of a pod in the active queue: the order of S-Q-4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub(super) priority: Reverse<i32>,
    pub(super) queued_at: Instant,
    pub(super) step: u64,
    pub(super) key: PodKey,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pending: Arc<Pending>,
    /// When the pod was first told of.
    pub(super) since: Instant,
    /// When it was first ready to be tried.
    pub(super) ready_since: Option<Instant>,
    pub(super) n_attempts: u32,
    /// Attempts in a row that found no node.
    pub(super) n_rejected: u32,
    /// Attempts in a row that failed.
    pub(super) n_failed: u32,
    /// By whom its last attempt was rejected, until it is tried again.
    pub(super) rejected_by: PluginSet,
    /// Whether it is to be tried again only because it waited for so long.
    pub(super) was_flushed: bool,
    pub(super) state: PodState,
}

#[derive(Clone, Debug)]
pub(super) enum PodState {
    Gated,
    Active(QueuePosition),
    /// Since the last attempt; until it has rested.
    Backoff {
        since: Instant,
        until: Instant,
    },
    Unschedulable {
        since: Instant,
        wanted: Changes,
        rests: bool,
    },
    /// Since this step; whether the pod, or who belongs to its group, was changed meanwhile; how far it got.
    InFlight {
        number: u64,
        is_changed: bool,
        stage: Stage,
    },
    Held {
        until: Option<Instant>,
    },
}

/// How far an attempt got.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is decided, or what is said of it is written: the pod has no room.
    Open,
    /// It has taken its room, and nobody was told.
    Placed,
    /// Its Binding, or its nomination, was sent, or may have been.
    Sent,
}

/// Pods by where they wait.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready to be tried.
    pub active: usize,
    /// Resting.
    pub backoff: usize,
    /// Waiting for a change.
    pub unschedulable: usize,
    /// With scheduling gates.
    pub gated: usize,
    /// Being tried, bound or reported.
    pub in_flight: usize,
    /// Bound, or handed off, and not told of by the feed yet.
    pub held: usize,
}

impl Counts {
    /// The count of the pods in a state.
    pub(super) fn of(&mut self, state: &PodState) -> &mut usize {
        match state {
            PodState::Gated => &mut self.gated,
            PodState::Active(_) => &mut self.active,
            PodState::Backoff { .. } => &mut self.backoff,
            PodState::Unschedulable { .. } => &mut self.unschedulable,
            PodState::InFlight { .. } => &mut self.in_flight,
            PodState::Held { .. } => &mut self.held,
        }
    }
}
