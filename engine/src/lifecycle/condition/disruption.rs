//! `DisruptionTarget`: the mark of a pod that is about to be ended, with its cause, and its expiry.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    ExpireDisruptionRequest, ExpireDisruptionResponse, MarkDisruptionRequest,
    MarkDisruptionResponse,
};
use berth_proto::core_v1::{Pod, PodCondition};

use super::recorded::{Recorded, is_true};
use super::stated;
use crate::lifecycle::condition::finding::{Finding, Text};
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::word::words;
use crate::model::ModelError;

/// Type of the condition that is the mark.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Seconds after which a mark without a deletion is reset (L-COND-14).
const STALE_AFTER_SECONDS: Seconds = 120;

words! {
    /// Cause of a disruption (L-COND-12).
    enum DisruptionCause {
        /// The scheduler makes room for another pod.
        SchedulerPreemption = "SchedulerPreemption",
        /// The pod does not tolerate its node's taints.
        TaintEviction = "TaintEviction",
        /// An eviction request was approved.
        EvictionApi = "EvictionAPI",
        /// The pod's node object is gone.
        OrphanedByPodGc = "OrphanedByPodGC",
        /// The node is under pressure, shuts down, or makes room for a critical pod.
        NodePressure = "NodePressure",
    }
}

impl DisruptionCause {
    /// The reason of the mark (L-COND-12).
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            DisruptionCause::SchedulerPreemption => "PreemptionByScheduler",
            DisruptionCause::TaintEviction => "DeletionByTaintManager",
            DisruptionCause::EvictionApi => "EvictionByEvictionAPI",
            DisruptionCause::OrphanedByPodGc => "DeletionByPodGC",
            DisruptionCause::NodePressure => BY_NODE_AGENT,
        }
    }

    /// Whether the mark is published together with the terminal phase. The others are written before the delete is
    /// issued (L-COND-13).
    #[must_use]
    pub const fn is_published_with_terminal_phase(self) -> bool {
        matches!(self, DisruptionCause::NodePressure)
    }
}

/// Reason of a mark that the node agent sets.
const BY_NODE_AGENT: &str = "TerminationByKubelet";

/// `MarkDisruption`: the pod's conditions with the mark for a cause (L-COND-12), and the time to write them
/// (L-COND-13).
///
/// # Errors
/// [`ModelError`] for a missing `pod` or `now`, an unknown cause, or recorded conditions that contradict each other.
pub fn mark_disruption(
    request: &MarkDisruptionRequest,
) -> Result<MarkDisruptionResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let cause = DisruptionCause::parse(&request.cause, "cause")?;
    let recorded = Recorded::read(pod).map_err(|error| error.under("pod"))?;
    let mut conditions = recorded.to_wire();
    let finding = Finding { reason: cause.reason(), ..Finding::plain(true) };
    stated::put(&mut conditions, pod, DISRUPTION_TARGET, finding, now);
    let with_terminal_phase = cause.is_published_with_terminal_phase();
    Ok(MarkDisruptionResponse { conditions, with_terminal_phase })
}

/// `ExpireDisruption`: the pod's conditions with a stale mark reset, or the time at which to check again (L-COND-14).
///
/// # Errors
/// [`ModelError`] for a missing `pod` or `now`, an unknown recorded phase, or recorded conditions that contradict each
/// other.
pub fn expire_disruption(
    request: &ExpireDisruptionRequest,
) -> Result<ExpireDisruptionResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let now = reading::required(request.now.as_ref(), "now")?;
    reading::phase(pod).map_err(|error| error.under("pod"))?;
    let recorded = Recorded::read(pod).map_err(|error| error.under("pod"))?;
    let mut conditions = recorded.to_wire();
    drop_stale_mark(&mut conditions, pod, now);
    let later = disruption_stale_at(pod, now).filter(|at| *at > now);
    let recheck_after_seconds = later.map(|at| at.saturating_sub(now));
    Ok(ExpireDisruptionResponse { conditions, recheck_after_seconds })
}

/// Resets a stale disruption mark (L-COND-14).
pub(crate) fn drop_stale_mark(
    conditions: &mut BTreeMap<String, PodCondition>,
    pod: &Pod,
    now: Seconds,
) {
    if disruption_stale_at(pod, now).is_some_and(|at| at <= now) {
        let reset = Finding::not("", Text::None);
        stated::put(conditions, pod, DISRUPTION_TARGET, reset, now);
    }
}

/// Time at which the pod's disruption mark becomes stale. `None` without a mark, for a mark of the node agent, and for
/// a pod that is marked for deletion or terminal (L-COND-14). A mark without a time is stale already.
pub(crate) fn disruption_stale_at(pod: &Pod, now: Seconds) -> Option<Seconds> {
    let is_over = reading::phase(pod).is_ok_and(|phase| phase.is_terminal());
    if reading::is_marked(pod) || is_over {
        return None;
    }
    let mark = reading::condition(pod, DISRUPTION_TARGET)
        .filter(|mark| is_true(mark) && mark.reason != BY_NODE_AGENT)?;
    let since = reading::optional(mark.last_transition_time.as_ref());
    Some(since.map_or(now, |since| since.saturating_add(STALE_AFTER_SECONDS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Seconds = 1_768_046_400; // 2026-01-10T12:00:00Z

    fn check(now: Seconds, since: Option<Seconds>, rest: &str) -> String {
        let mut request: ExpireDisruptionRequest = serde_json::from_str(&format!(
            r#"{{"pod":{{{rest}"status":{{"phase":"Running","conditions":[{{"type":"DisruptionTarget","status":"True",
            "reason":"PreemptionByScheduler"}}]}}}}}}"#
        ))
        .unwrap();
        request.now = Some(reading::time(now));
        let conditions = &mut request.pod.as_mut().unwrap().status.as_mut().unwrap().conditions;
        conditions[0].last_transition_time = since.map(reading::time);
        let answer = expire_disruption(&request).unwrap();
        format!(
            "{} {:?}",
            answer.conditions["DisruptionTarget"].status, answer.recheck_after_seconds
        )
    }

    /// L-COND-14: marks at the exact second, without a time, from the future, and at the limits of time.
    #[test]
    fn marks_go_stale() {
        assert_eq!(check(NOW, Some(NOW - 119), ""), "True Some(1)");
        assert_eq!(check(NOW, Some(NOW - 120), ""), "False None");
        assert_eq!(check(NOW, None, ""), "False None");
        assert_eq!(check(NOW, Some(NOW + 10), ""), "True Some(130)");
        assert_eq!(check(i64::MIN, Some(i64::MAX), ""), format!("True Some({})", i64::MAX));
        assert_eq!(check(i64::MAX, Some(i64::MAX), ""), "False None");
    }

    /// L-COND-14: the mark of a pod that is being deleted stays.
    #[test]
    fn marks_of_pods_that_end_stay() {
        let deleted = r#""metadata":{"deletionTimestamp":"2026-01-10T11:00:00Z"},"#;
        assert_eq!(check(NOW, Some(NOW - 500), deleted), "True None");
    }

    /// L-COND-13, L-COND-2: only the node agent's mark waits for the terminal phase; a second cause does not change the
    /// time.
    #[test]
    fn when_marks_are_written() {
        let mark = |cause: &str| {
            let request: MarkDisruptionRequest = serde_json::from_str(&format!(
                r#"{{"pod":{{"status":{{"conditions":[{{"type":"DisruptionTarget","status":"True","reason":"DeletionByPodGC",
                "lastTransitionTime":"2026-01-10T11:00:00Z"}}]}}}},"cause":"{cause}","now":"2026-01-10T12:00:00Z"}}"#
            ))
            .unwrap();
            mark_disruption(&request).unwrap()
        };
        for cause in DisruptionCause::WORDS {
            let answer = mark(cause);
            assert_eq!(answer.with_terminal_phase, *cause == "NodePressure", "{cause}");
            let condition = &answer.conditions[DISRUPTION_TARGET];
            let since = reading::optional(condition.last_transition_time.as_ref());
            assert_eq!(since, Some(NOW - 3600), "{cause}");
            let cause = DisruptionCause::parse(cause, "cause").unwrap();
            assert_eq!(condition.reason, cause.reason());
        }
    }
}
