//! `SchedulingReadiness`: whether a pod is offered to the scheduler (L-GATE-1).

use berth_proto::berth_v1::{SchedulingReadinessRequest, SchedulingReadinessResponse};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{self, given, is_marked, node_name, spec};
use crate::model::ModelError;

/// Reason of the condition `PodScheduled` of a pod that waits for its gates (L-GATE-1, L-COND-4).
pub const SCHEDULING_GATED: &str = "SchedulingGated";

/// The gates that the pod waits for, in list order.
pub fn gates(pod: &Pod) -> impl Iterator<Item = &str> {
    spec(pod).scheduling_gates.iter().map(|gate| gate.name.as_str())
}

/// Whether the pod is offered to the scheduler: it has no gates, is neither marked for deletion nor bound, and has not
/// ended.
///
/// # Errors
/// [`ModelError`] relative to the pod for an unknown phase.
pub fn is_schedulable(pod: &Pod) -> Result<bool, ModelError> {
    Ok(!reading::phase(pod)?.is_terminal()
        && spec(pod).scheduling_gates.is_empty()
        && !is_marked(pod)
        && node_name(pod).is_none())
}

/// `SchedulingReadiness`: whether the pod is offered to the scheduler, and the gates that it waits for (L-GATE-1).
///
/// # Errors
/// [`ModelError`] if `pod` is missing or its phase unknown.
pub fn scheduling_readiness(
    request: &SchedulingReadinessRequest,
) -> Result<SchedulingReadinessResponse, ModelError> {
    let pod = given(request.pod.as_ref(), "pod")?;
    let waiting_for: Vec<String> = gates(pod).map(Into::into).collect();
    let reason = if waiting_for.is_empty() { "" } else { SCHEDULING_GATED };
    Ok(SchedulingReadinessResponse {
        schedulable: is_schedulable(pod).map_err(|error| error.under("pod"))?,
        waiting_for,
        pod_scheduled_reason: reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(pod: Value) -> Result<SchedulingReadinessResponse, String> {
        let pod = serde_json::from_value(pod).unwrap();
        scheduling_readiness(&SchedulingReadinessRequest { pod, key: None })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn gates_in_list_order() {
        // L-GATE-1
        let gates = json!([{"name": "b.io/x"}, {"name": "a.io/x"}]);
        let response = answer(json!({"spec": {"schedulingGates": gates}})).unwrap();
        assert_eq!(response.waiting_for, ["b.io/x", "a.io/x"]);
        assert_eq!(
            (response.schedulable, &*response.pod_scheduled_reason),
            (false, "SchedulingGated")
        );
        let response = answer(json!({"status": {"phase": "Failed"}})).unwrap();
        assert_eq!((response.schedulable, &*response.pod_scheduled_reason), (false, ""));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(answer(json!(null)).unwrap_err(), "`pod`: required");
        let error = answer(json!({"status": {"phase": "Waiting"}})).unwrap_err();
        assert!(error.starts_with("`pod.status.phase`: unknown value `Waiting`"), "{error}");
    }
}
