//! `EndpointConditions`: the conditions of a pod in its services' endpoints (L-TERM-20).

use berth_proto::berth_v1::{EndpointConditionsRequest, EndpointConditionsResponse};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{self, given, is_marked, is_ready, status};
use crate::model::ModelError;

/// The conditions of a pod's endpoint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// Whether the endpoint gets ordinary traffic.
    pub ready: bool,
    /// Whether the pod can serve, even while it terminates.
    pub serving: bool,
    /// Whether the pod's deletion has been requested.
    pub terminating: bool,
}

/// The conditions of the pod's endpoint; `None` if the pod is terminal or has no address, and so no endpoint.
///
/// # Errors
/// [`ModelError`] relative to the pod for an unknown phase, and for an invalid or duplicate `Ready` condition.
pub fn endpoint_state(
    pod: &Pod,
    publish_not_ready_addresses: bool,
) -> Result<Option<EndpointState>, ModelError> {
    let status = status(pod);
    let has_address = !status.pod_ip.is_empty() || !status.pod_ips.is_empty();
    if reading::phase(pod)?.is_terminal() || !has_address {
        return Ok(None);
    }
    let (serving, terminating) = (is_ready(pod)?, is_marked(pod));
    let ready = publish_not_ready_addresses || (serving && !terminating);
    Ok(Some(EndpointState { ready, serving, terminating }))
}

/// `EndpointConditions`: [`endpoint_state`] for the wire.
///
/// # Errors
/// [`ModelError`] if `pod` is missing, and as [`endpoint_state`].
pub fn endpoint_conditions(
    request: &EndpointConditionsRequest,
) -> Result<EndpointConditionsResponse, ModelError> {
    let pod = given(request.pod.as_ref(), "pod")?;
    let state = endpoint_state(pod, request.publish_not_ready_addresses)
        .map_err(|error| error.under("pod"))?;
    Ok(EndpointConditionsResponse {
        included: state.is_some(),
        ready: state.map(|state| state.ready),
        serving: state.map(|state| state.serving),
        terminating: state.map(|state| state.terminating),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_address_counts_and_an_absent_ready_is_not_ready() {
        // L-TERM-20
        let pod = |status| serde_json::from_value(json!({"status": status})).unwrap();
        let state = |status| endpoint_state(&pod(status), false).unwrap();
        let unready = EndpointState { ready: false, serving: false, terminating: false };
        assert_eq!(state(json!({"podIPs": [{"ip": "10.0.0.1"}]})), Some(unready));
        let unknown = json!([{"type": "Ready", "status": "Unknown"}]);
        assert_eq!(state(json!({"podIP": "10.0.0.1", "conditions": unknown})), Some(unready));
        assert_eq!(state(json!({})), None);
    }

    #[test]
    fn bad_input_is_named() {
        let error = |request| endpoint_conditions(&request).unwrap_err().to_string();
        assert_eq!(error(EndpointConditionsRequest::default()), "`pod`: required");
        let pod = serde_json::from_value(json!({"status": {"phase": "failed"}})).unwrap();
        let request =
            EndpointConditionsRequest { pod, publish_not_ready_addresses: false, key: None };
        assert!(error(request).starts_with("`pod.status.phase`: unknown value `failed`"));
    }
}
