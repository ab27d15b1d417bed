//! Findings: derived values of a condition, before it has a time.

use crate::lifecycle::vocabulary::{ConditionStatus, PodPhase};

/// Reason of a condition that is over because the pod Succeeded.
pub(super) const POD_COMPLETED: &str = "PodCompleted";
/// Reason of a condition that is over because the pod Failed.
pub(super) const POD_FAILED: &str = "PodFailed";

/// Message of a condition, without the names that it contains.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// No message.
    None,
    /// A constant message.
    Fixed(&'static str),
    /// Names the init containers that are not done (L-COND-7).
    NotInitialized,
    /// Names the containers that are not ready (L-COND-8).
    NotReady,
    /// Names the readiness gates that are unmet (L-COND-10).
    GatesUnmet,
}

/// Derived status, reason and message of a condition, before it has a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: ConditionStatus,
    pub(super) reason: &'static str,
    pub(super) text: Text,
}

impl Finding {
    /// A finding of True or False, without a reason.
    pub(super) const fn plain(holds: bool) -> Finding {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Finding { status, reason: "", text: Text::None }
    }

    /// A finding of False, with a reason.
    pub(super) const fn not(reason: &'static str, text: Text) -> Finding {
        Finding { status: ConditionStatus::False, reason, text }
    }

    /// A finding of False because the pod has ended; `None` before its end.
    pub(super) const fn over(phase: PodPhase) -> Option<Finding> {
        match phase {
            PodPhase::Succeeded => Some(Finding::not(POD_COMPLETED, Text::None)),
            PodPhase::Failed => Some(Finding::not(POD_FAILED, Text::None)),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => None,
        }
    }
}
