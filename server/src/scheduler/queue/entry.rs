//! Entry: the record of one pending pod, and the state that it is in.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use berth_engine::PodKey;

use crate::scheduler::hints::Changes;
use crate::scheduler::pending::Pending;
use crate::scheduler::plugin_set::PluginSet;

/// Id of one attempt of one pod; outcomes of an attempt that is not the pod's last are ignored.
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
    /// When the pod was first received.
    pub(super) since: Instant,
    /// When the pod was first ready to be tried.
    pub(super) ready_since: Option<Instant>,
    pub(super) n_attempts: u32,
    /// Number of consecutive attempts that found no node.
    pub(super) n_rejected: u32,
    /// Number of consecutive attempts that failed.
    pub(super) n_failed: u32,
    /// Plugins that rejected the last attempt, until the pod is tried again.
    pub(super) rejected_by: PluginSet,
    /// Whether the pod is to be tried again only because it waited for so long.
    pub(super) was_flushed: bool,
    /// Victims of the last attempt that are not gone yet; `None` if it had none.
    pub(super) victims: Option<Vec<PodKey>>,
    pub(super) state: PodState,
}

impl Entry {
    /// Whether the last attempt had victims, and all of them are gone.
    pub(super) fn has_room(&self) -> bool {
        self.victims.as_ref().is_some_and(Vec::is_empty)
    }
}

#[derive(Clone, Debug)]
pub(super) enum PodState {
    Gated,
    Active(QueuePosition),
    /// Time of the last attempt, and the end of the backoff.
    Backoff {
        since: Instant,
        until: Instant,
    },
    Unschedulable {
        since: Instant,
        wanted: Changes,
        rests: bool,
        /// Whether a claim for devices could not be used, and no claim that the pod names has changed since.
        is_blocked: bool,
    },
    InFlight {
        /// Number of the attempt's step.
        number: u64,
        /// Whether the pod, or its group, was changed meanwhile.
        is_changed: bool,
        /// Whether its generated claims, or the claims that it names, were changed meanwhile.
        has_claim_news: bool,
        stage: Stage,
    },
    Held {
        until: Option<Instant>,
    },
}

/// Changes during an attempt.
#[derive(Copy, Clone, Debug)]
pub(super) struct Missed {
    /// The kinds of change.
    pub(super) changes: Changes,
    /// Whether the pod's generated claims are others, or a claim that the pod names is new or has another status.
    pub(super) has_claim_news: bool,
    /// Whether any claim lost its allocation.
    pub(super) has_freed_devices: bool,
}

/// Stage of an attempt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The attempt is decided, or its rejection is being written: the pod is not assumed.
    Open,
    /// The pod is assumed, and nothing was sent.
    Placed,
    /// The Binding, or the nomination, was sent, or may have been.
    Sent,
}

/// Pods by where they wait.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods that are ready to be tried.
    pub active: usize,
    /// Pods that wait for their backoff to end.
    pub backoff: usize,
    /// Pods that wait for a change.
    pub unschedulable: usize,
    /// Pods with scheduling gates.
    pub gated: usize,
    /// Pods that are being tried, bound or reported.
    pub in_flight: usize,
    /// Pods that are bound, or handed off, and whose node the feed has not reported yet.
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
