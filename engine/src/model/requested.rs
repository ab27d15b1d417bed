//! Requests of a pod, for callers that compare pods with machines without a cluster. Rules: S-FIT-1 to S-FIT-4.

use std::collections::BTreeMap;

use berth_proto::{Amount, core_v1};

use super::ModelError;
use super::requests::{Options, PodRequests};

/// The requests of `pod` by resource name: regular and init containers, sidecars, pod-level values and overhead, as the
/// filter counts an incoming pod. Amounts are exact; callers round once, after adding up.
///
/// Names are as written, including those that no filter reads; absent names are 0.
///
/// # Errors
/// [`ModelError`] with the field that cannot be read: a missing `spec`, or an invalid or negative amount.
pub fn requested(pod: &core_v1::Pod) -> Result<BTreeMap<&str, Amount>, ModelError> {
    Ok(PodRequests::parse(pod)?.aggregate(Options::default()).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_containers_sidecars_and_overhead_count() {
        let pod: core_v1::Pod = serde_json::from_str(
            r#"{"spec": {
                "initContainers": [
                    {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                    {"name": "init", "resources": {"requests": {"cpu": "900m", "memory": "64Mi"}}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "128Mi"}}}],
                "overhead": {"cpu": "50m"}}}"#,
        )
        .unwrap();
        let amounts = requested(&pod).unwrap();
        assert_eq!(amounts["cpu"], Amount::from_milli(1_050), "sidecar and init, and the overhead");
        assert_eq!(amounts["memory"], Amount::from_value(128 << 20));
        assert_eq!(requested(&core_v1::Pod::default()).unwrap_err().field, "spec");
    }
}
