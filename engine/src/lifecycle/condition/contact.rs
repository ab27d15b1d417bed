//! `MarkPodNotReadyOnNode`: conditions of pods on a node that lost contact (L-COND-17).

use berth_proto::berth_v1::{MarkPodNotReadyOnNodeRequest, MarkPodNotReadyOnNodeResponse};
use berth_proto::core_v1::Pod;

use super::recorded::Recorded;
use super::set::ConditionSet;
use crate::lifecycle::condition::owned::OwnedType;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;

/// `MarkPodNotReadyOnNode`: the `Ready` condition becomes False. Its reason and message, and all other conditions, stay
/// as they were, since nothing new is known about the containers (L-COND-17).
///
/// # Errors
/// [`ModelError`] for a missing `pod` or `now`, or recorded conditions that contradict each other.
pub fn mark_pod_not_ready_on_node(
    request: &MarkPodNotReadyOnNodeRequest,
) -> Result<MarkPodNotReadyOnNodeResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let conditions = without_contact(pod, now).map_err(|error| error.under("pod"))?.to_wire();
    Ok(MarkPodNotReadyOnNodeResponse { conditions })
}

/// The conditions of a pod whose node lost contact. The statuses of its containers are stale, so nothing is derived
/// from them.
///
/// # Errors
/// [`ModelError`] relative to the pod, for recorded conditions that contradict each other.
pub(crate) fn without_contact(pod: &Pod, now: Seconds) -> Result<ConditionSet<'_>, ModelError> {
    let mut set = as_recorded(pod, now)?;
    set.set_status(OwnedType::Ready, ConditionStatus::False);
    Ok(set)
}

/// The conditions of a pod that no node agent has seen. Nothing is derived, since only an agent publishes derived
/// conditions.
///
/// # Errors
/// Errors of [`without_contact`].
pub(crate) fn as_recorded(pod: &Pod, now: Seconds) -> Result<ConditionSet<'_>, ModelError> {
    Ok(ConditionSet::new(pod, Recorded::read(pod)?, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(conditions: &str) -> String {
        let request: MarkPodNotReadyOnNodeRequest = serde_json::from_str(&format!(
            r#"{{"pod":{{"metadata":{{"generation":3}},"status":{{"conditions":[{conditions}]}}}},
            "now":"2026-01-10T12:00:00Z"}}"#
        ))
        .unwrap();
        let answer = mark_pod_not_ready_on_node(&request).unwrap();
        serde_json::to_string(&answer.conditions).unwrap()
    }

    /// L-COND-17, L-COND-2: Unknown becomes False too; False stays, with its time; a missing condition is not created.
    #[test]
    fn only_a_ready_condition_becomes_false() {
        assert_eq!(check(""), "{}");
        let unready =
            r#"{"type":"Ready","status":"False","lastTransitionTime":"2026-01-10T11:00:00Z"}"#;
        assert_eq!(check(unready), format!(r#"{{"Ready":{unready}}}"#));
        assert_eq!(
            check(r#"{"type":"Ready","status":"Unknown","reason":"R","message":"m"}"#),
            concat!(
                r#"{"Ready":{"type":"Ready","status":"False","lastTransitionTime":"2026-01-10T12:00:00Z","#,
                r#""reason":"R","message":"m","observedGeneration":3}}"#
            )
        );
    }
}
