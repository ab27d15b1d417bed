//! `SetSchedulingCondition`: `PodScheduled` after creation, a scheduling attempt or a binding (L-COND-4).

use berth_proto::berth_v1::{SetSchedulingConditionRequest, SetSchedulingConditionResponse};

use super::recorded::Recorded;
use super::stated;
use crate::lifecycle::condition::finding::{Finding, Text};
use crate::lifecycle::condition::owned::OwnedType;
use crate::lifecycle::gate::SCHEDULING_GATED;
use crate::lifecycle::reading;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Event of a pod before it runs.
    enum SchedulingResult {
        /// The pod has been created.
        Created = "Created",
        /// A scheduling attempt found no node.
        Unschedulable = "Unschedulable",
        /// A scheduling attempt failed by an internal error of the scheduler.
        SchedulerError = "SchedulerError",
        /// The pod has been bound to a node.
        Bound = "Bound",
    }
}

/// `SetSchedulingCondition`: the pod's conditions after a result (L-COND-4).
///
/// # Errors
/// [`ModelError`] for a missing `pod` or `now`, an unknown result, recorded conditions that contradict each other, a
/// failed attempt for a bound pod, and an attempt or binding of a pod with scheduling gates, which is not offered to
/// the scheduler (L-GATE-1) and cannot be bound (L-GATE-5).
pub fn set_scheduling_condition(
    request: &SetSchedulingConditionRequest,
) -> Result<SetSchedulingConditionResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let now = reading::required(request.now.as_ref(), "now")?;
    let result = SchedulingResult::parse(&request.result, "result")?;
    let recorded = Recorded::read(pod).map_err(|error| error.under("pod"))?;
    let is_gated = !reading::spec(pod).scheduling_gates.is_empty();
    let finding = match result {
        SchedulingResult::Created if !is_gated => None,
        SchedulingResult::Created => {
            Some(Finding::not(SCHEDULING_GATED, Text::Fixed("waits for its scheduling gates")))
        }
        SchedulingResult::Unschedulable => Some(Finding::not("Unschedulable", Text::None)),
        SchedulingResult::SchedulerError => Some(Finding::not("SchedulerError", Text::None)),
        SchedulingResult::Bound => Some(Finding::plain(true)),
    };
    let is_in_vain =
        matches!(result, SchedulingResult::Unschedulable | SchedulingResult::SchedulerError);
    if let Some(node) = reading::node_name(pod)
        && is_in_vain
    {
        let reason = format!("`{}`, but the pod is bound to the node `{node}`", result.word());
        return Err(ModelError::new("result", reason));
    }
    if is_gated && result != SchedulingResult::Created {
        let reason = format!("`{}`, but the pod has scheduling gates", result.word());
        return Err(ModelError::new("result", reason));
    }
    let mut conditions = recorded.to_wire();
    let r#type = OwnedType::PodScheduled.word();
    match finding {
        Some(finding) => stated::put(&mut conditions, pod, r#type, finding, now),
        None => {
            conditions.remove(r#type);
        }
    }
    Ok(SetSchedulingConditionResponse { conditions })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str, pod: &str) -> Result<String, String> {
        let request: SetSchedulingConditionRequest = serde_json::from_str(&format!(
            r#"{{"pod":{pod},"result":"{result}","now":"2026-01-10T12:00:00Z"}}"#
        ))
        .unwrap();
        let answer = set_scheduling_condition(&request).map_err(|error| error.to_string())?;
        Ok(serde_json::to_string(&answer.conditions).unwrap())
    }

    /// L-COND-1, L-COND-5: the condition carries the generation; a legacy condition of the type `Unschedulable` is kept
    /// and not written.
    #[test]
    fn unschedulable_is_a_reason() {
        let pod = r#"{"metadata":{"generation":4},"status":{"conditions":[{"type":"Unschedulable","status":"False"}]}}"#;
        assert_eq!(
            check("Unschedulable", pod).unwrap(),
            concat!(
                r#"{"PodScheduled":{"type":"PodScheduled","status":"False","lastTransitionTime":"2026-01-10T12:00:00Z","#,
                r#""reason":"Unschedulable","observedGeneration":4},"Unschedulable":{"type":"Unschedulable","status":"False"}}"#
            )
        );
    }

    /// L-GATE-1, L-GATE-5
    #[test]
    fn a_gated_pod_is_not_tried() {
        let gated = r#"{"spec":{"schedulingGates":[{"name":"a.io/x"}]}}"#;
        for result in ["Unschedulable", "SchedulerError", "Bound"] {
            let error = format!("`result`: `{result}`, but the pod has scheduling gates");
            assert_eq!(check(result, gated), Err(error));
        }
        assert!(check("Created", gated).unwrap().contains("SchedulingGated"));
    }

    /// L-COND-4
    #[test]
    fn contradictions_are_refused() {
        let bound = r#"{"spec":{"nodeName":"n1"}}"#;
        assert_eq!(
            check("Unschedulable", bound).unwrap_err(),
            "`result`: `Unschedulable`, but the pod is bound to the node `n1`"
        );
        assert!(check("Bound", bound).is_ok());
        let twice = r#"{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Ready","status":"True"}]}}"#;
        assert_eq!(
            check("Bound", twice).unwrap_err(),
            "`pod.status.conditions[1].type`: duplicate `Ready`"
        );
        assert_eq!(
            check("bound", bound).unwrap_err(),
            "`result`: unknown value `bound`: not one of `Created`, `Unschedulable`, `SchedulerError`, `Bound`"
        );
    }
}
