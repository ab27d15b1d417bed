//! Conditions as they are written: with their time and their message.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Pod, PodCondition};

use super::finding::Finding;
use super::text;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::ConditionStatus;

/// Time since which a condition has this status, given the recorded condition (L-COND-2).
pub(super) fn since(
    recorded: Option<&PodCondition>,
    status: ConditionStatus,
    now: Option<Seconds>,
) -> Option<Seconds> {
    match recorded {
        Some(recorded) if recorded.status == status.word() => {
            reading::optional(recorded.last_transition_time.as_ref())
        }
        _ => now,
    }
}

/// A condition of a pod, without a message, that replaces the recorded one. Its time is `now` if the type is new or its
/// status changes, else the recorded one (L-COND-2); its observed generation is the pod's (L-COND-1).
pub(crate) fn stated(
    pod: &Pod,
    r#type: &str,
    recorded: Option<&PodCondition>,
    (status, reason): (ConditionStatus, &str),
    now: Seconds,
) -> PodCondition {
    PodCondition {
        r#type: r#type.to_owned(),
        status: status.word().to_owned(),
        last_probe_time: None,
        last_transition_time: since(recorded, status, Some(now)).map(reading::time),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: reading::meta(pod).generation,
    }
}

/// Adds or replaces a condition of a pod.
pub(super) fn put(
    conditions: &mut BTreeMap<String, PodCondition>,
    pod: &Pod,
    r#type: &str,
    finding: Finding,
    now: Seconds,
) {
    let found = (finding.status, finding.reason);
    let stated = stated(pod, r#type, conditions.get(r#type), found, now);
    let condition = PodCondition { message: text::write(finding.text, pod), ..stated };
    conditions.insert(r#type.to_owned(), condition);
}
