//! Findings: what was found out for a condition, before it has a time.

use crate::lifecycle::vocabulary::{ConditionStatus, PodPhase};

/// Reason of a condition that is over because the pod Succeeded.
pub(super) const POD_COMPLETED: &str = "PodCompleted";
/// Reason of a condition that is over because the pod Failed.
pub(super) const POD_FAILED: &str = "PodFailed";

/// Which message a condition has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// None.
    None,
    /// Always the same one.
    Fixed(&'static str),
    /// Which init containers have not done their part (L-COND-7).
    NotInitialized,
    /// Which containers are not ready (L-COND-8).
    NotReady,
    /// Which readiness gates are unmet (L-COND-10).
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
    /// True or False, without a reason.
    pub(super) const fn plain(holds: bool) -> Finding {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Finding { status, reason: "", text: Text::None }
    }

    /// False, and why.
    pub(super) const fn not(reason: &'static str, text: Text) -> Finding {
        Finding { status: ConditionStatus::False, reason, text }
    }

    /// False because the pod has come to its end; `None` before that.
    pub(super) const fn over(phase: PodPhase) -> Option<Finding> {
        match phase {
            PodPhase::Succeeded => Some(Finding::not(POD_COMPLETED, Text::None)),
            PodPhase::Failed => Some(Finding::not(POD_FAILED, Text::None)),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => None,
        }
    }
}
