//! `Bind`: whether a pod may be bound (L-GATE-5, L-GATE-6).

use berth_proto::berth_v1::{BindRequest, BindResponse};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{condition, given, is_marked, meta, node_name, spec, status};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Reason why a pod is not bound.
    enum BindRefusal {
        /// The request names another UID.
        UidMismatch = "UIDMismatch",
        /// The pod's deletion has been requested.
        BeingDeleted = "BeingDeleted",
        /// The pod is bound, even if to the same node: a restart never moves it (L-RESTART-20).
        AlreadyBound = "AlreadyBound",
        /// The pod has scheduling gates left.
        Gated = "Gated",
    }
}

/// The first reason against binding the pod; `None` if it may be bound. An empty `uid` matches any pod of the name.
#[must_use]
pub fn bind_refusal(pod: &Pod, uid: &str) -> Option<BindRefusal> {
    if !uid.is_empty() && uid != meta(pod).uid {
        Some(BindRefusal::UidMismatch)
    } else if is_marked(pod) {
        Some(BindRefusal::BeingDeleted)
    } else if node_name(pod).is_some() {
        Some(BindRefusal::AlreadyBound)
    } else if !spec(pod).scheduling_gates.is_empty() {
        Some(BindRefusal::Gated)
    } else {
        None
    }
}

/// `Bind`: a binding sets the node, makes `PodScheduled` True and clears the nomination (L-GATE-5); a refusal changes
/// none of the three.
///
/// # Errors
/// [`ModelError`] if `pod` or `node` is missing.
pub fn bind(request: &BindRequest) -> Result<BindResponse, ModelError> {
    let pod = given(request.pod.as_ref(), "pod")?;
    if request.node.is_empty() {
        return Err(ModelError::new("node", "required"));
    }
    Ok(match bind_refusal(pod, &request.pod_uid) {
        None => BindResponse {
            bound: true,
            reason: String::new(),
            node_name: request.node.clone(),
            pod_scheduled: ConditionStatus::True.word().into(),
            nominated_node_name: String::new(),
        },
        Some(refusal) => BindResponse {
            bound: false,
            reason: refusal.word().into(),
            node_name: spec(pod).node_name.clone(),
            pod_scheduled: condition(pod, "PodScheduled")
                .map_or(String::new(), |scheduled| scheduled.status.clone()),
            nominated_node_name: status(pod).nominated_node_name.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(request: Value) -> Result<BindResponse, String> {
        let request: BindRequest = serde_json::from_value(request).unwrap();
        bind(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_check_that_fails_names_the_reason() {
        // L-GATE-5: all checks fail at first, then one less at a time.
        let mut pod = json!({
            "metadata": {"uid": "u1", "deletionTimestamp": "2026-01-10T12:00:00Z"},
            "spec": {"nodeName": "n1", "schedulingGates": [{"name": "a.io/x"}]},
            "status": {"nominatedNodeName": "n3"},
        });
        let reason = |pod: &Value, uid| {
            answer(json!({"pod": pod, "node": "n2", "podUID": uid})).unwrap().reason
        };
        assert_eq!(reason(&pod, "u0"), "UIDMismatch");
        assert_eq!(reason(&pod, "u1"), "BeingDeleted");
        pod["metadata"]["deletionTimestamp"] = Value::Null;
        // L-GATE-6, L-RESTART-20
        assert_eq!(reason(&pod, ""), "AlreadyBound");
        pod["spec"]["nodeName"] = Value::Null;
        assert_eq!(reason(&pod, ""), "Gated");
        pod["spec"]["schedulingGates"] = Value::Null;
        let response = answer(json!({"pod": pod, "node": "n2"})).unwrap();
        assert_eq!((&*response.node_name, &*response.pod_scheduled), ("n2", "True"));
        assert_eq!(response.nominated_node_name, "");
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let response = answer(json!({
            "pod": {
                "spec": {"schedulingGates": [{"name": "a.io/x"}]},
                "status": {
                    "nominatedNodeName": "n3",
                    "conditions": [{"type": "PodScheduled", "status": "False"}],
                },
            },
            "node": "n2",
        }));
        let response = response.unwrap();
        assert_eq!((&*response.node_name, &*response.pod_scheduled), ("", "False"));
        assert_eq!(response.nominated_node_name, "n3");
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(answer(json!({"node": "n1"})).unwrap_err(), "`pod`: required");
        assert_eq!(answer(json!({"pod": {}})).unwrap_err(), "`node`: required");
    }
}
