//! `CountReplicas`: the pods that count for a replica count (L-TERM-21).

use berth_proto::berth_v1::{CountReplicasRequest, CountReplicasResponse};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{self, in_list, is_marked};
use crate::model::ModelError;

/// Whether the pod counts: it is neither terminal nor marked for deletion.
///
/// # Errors
/// [`ModelError`] relative to the pod for an unknown phase.
pub fn is_active(pod: &Pod) -> Result<bool, ModelError> {
    Ok(!reading::phase(pod)?.is_terminal() && !is_marked(pod))
}

/// Number of the pods that count.
///
/// # Errors
/// [`ModelError`] under `pods` for an unknown phase.
pub fn n_active(pods: &[Pod]) -> Result<i64, ModelError> {
    let count = |(index, pod)| in_list("pods", index, is_active(pod)).map(i64::from);
    pods.iter().enumerate().map(count).sum()
}

/// `CountReplicas`: how many pods to create or delete; a terminating pod is replaced at once.
///
/// # Errors
/// [`ModelError`] if `replicas` is missing or negative, or a pod's phase unknown.
pub fn count_replicas(request: &CountReplicasRequest) -> Result<CountReplicasResponse, ModelError> {
    let replicas = replicas(request.replicas)?;
    let active = n_active(&request.pods)?;
    Ok(CountReplicasResponse {
        active,
        to_create: replicas.saturating_sub(active).max(0),
        to_delete: active.saturating_sub(replicas).max(0),
    })
}

/// Reads the desired number of pods.
///
/// # Errors
/// [`ModelError`] if it is missing or negative.
pub(crate) fn replicas(replicas: Option<i32>) -> Result<i64, ModelError> {
    match replicas {
        Some(replicas) if replicas >= 0 => Ok(replicas.into()),
        Some(replicas) => Err(ModelError::new("replicas", format!("is {replicas}, below 0"))),
        None => Err(ModelError::new("replicas", "required")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(request: serde_json::Value) -> Result<(i64, i64, i64), String> {
        let request: CountReplicasRequest = serde_json::from_value(request).unwrap();
        let counts = count_replicas(&request).map_err(|error| error.to_string())?;
        Ok((counts.active, counts.to_create, counts.to_delete))
    }

    #[test]
    fn surplus_pods_are_counted() {
        // L-TERM-21
        assert_eq!(answer(json!({"replicas": 1, "pods": [{}, {}, {}]})), Ok((3, 0, 2)));
        assert_eq!(answer(json!({"replicas": 2_147_483_647})), Ok((0, 2_147_483_647, 0)));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(answer(json!({})).unwrap_err(), "`replicas`: required");
        assert_eq!(answer(json!({"replicas": -1})).unwrap_err(), "`replicas`: is -1, below 0");
        let error = answer(json!({"replicas": 1, "pods": [{}, {"status": {"phase": "x"}}]}));
        assert!(error.unwrap_err().starts_with("`pods[1].status.phase`: unknown value `x`"));
    }
}
