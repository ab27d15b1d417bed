//! The request of a pod for one resource, in exact amounts. Requests add up as in scheduling (S-FIT-2, S-FIT-3), with
//! two differences: the request of a container that has only a limit is that limit, as after admission, and an absent
//! request is not the same as zero.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Container, PodSpec, ResourceRequirements};
use berth_proto::{Amount, Quantity};

use crate::lifecycle::reading::{self, in_list};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;
use crate::model::requests::parse_amount;

/// Reads an optional entry of a resource list.
///
/// # Errors
/// [`ModelError`] at `field[name]` for an invalid or negative quantity.
pub(super) fn entry(
    list: &BTreeMap<String, Quantity>,
    name: &str,
    field: &str,
) -> Result<Option<Amount>, ModelError> {
    list.get(name).map(|quantity| parse_amount(quantity, name, field)).transpose()
}

/// The request, else the limit (L-PRESS-1).
///
/// # Errors
/// [`ModelError`] at `resources.…`.
pub(super) fn request_or_limit(
    resources: Option<&ResourceRequirements>,
    name: &str,
) -> Result<Option<Amount>, ModelError> {
    let Some(resources) = resources else { return Ok(None) };
    match entry(&resources.requests, name, "resources.requests")? {
        None => entry(&resources.limits, name, "resources.limits"),
        request => Ok(request),
    }
}

/// The request of the pod; `None` if it has none. Pod-level requests go before those of containers, and those before
/// pod-level limits (L-PRESS-7).
///
/// # Errors
/// [`ModelError`] relative to the spec.
pub(super) fn of_pod(spec: &PodSpec, name: &str) -> Result<Option<Amount>, ModelError> {
    let Some(pod_level) = spec.resources.as_ref().filter(|_| is_pod_level_name(name)) else {
        return of_containers(spec, name);
    };
    if let Some(request) = entry(&pod_level.requests, name, "resources.requests")? {
        return Ok(Some(request));
    }
    match of_containers(spec, name)? {
        None => entry(&pod_level.limits, name, "resources.limits"),
        request => Ok(request),
    }
}

/// The highest request at any time of the pod's life: that of all `containers` with the sidecars, or that of an init
/// container with the sidecars before it.
fn of_containers(spec: &PodSpec, name: &str) -> Result<Option<Amount>, ModelError> {
    let of = |container: &Container| request_or_limit(container.resources.as_ref(), name);
    let mut total: Option<Amount> = None;
    let mut add = |request: Amount| *total.get_or_insert_default() += request;
    for (index, container) in spec.containers.iter().enumerate() {
        in_list("containers", index, of(container))?.into_iter().for_each(&mut add);
    }
    let (mut sidecars, mut peak) = (Amount::ZERO, None);
    for (index, container) in spec.init_containers.iter().enumerate() {
        let read = of(container).and_then(|request| Ok((request, reading::init_kind(container)?)));
        let (request, kind) = in_list("initContainers", index, read)?;
        let Some(request) = request else { continue };
        if kind == ContainerKind::Sidecar {
            add(request);
            sidecars += request;
        } else {
            peak = peak.max(Some(sidecars + request));
        }
    }
    Ok(total.max(peak))
}

/// Whether a resource may be requested at the pod level.
pub(super) fn is_pod_level_name(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: serde_json::Value, expected: Option<i64>) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(of_pod(&spec, "memory").unwrap(), expected.map(Amount::from_value));
    }

    /// S-FIT-2: sidecars run beside the containers after them. An absent request is not zero.
    #[test]
    fn the_highest_request_counts() {
        let of = |memory: &str| json!({"resources": {"requests": {"memory": memory}}});
        let sidecar = |memory: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"memory": memory}}});
        check(json!({}), None);
        check(json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}), None);
        check(json!({"containers": [of("0")]}), Some(0));
        check(json!({"containers": [of("2"), of("3")], "initContainers": [of("4")]}), Some(5));
        check(json!({"containers": [of("2")], "initContainers": [of("4")]}), Some(4));
        let init = json!([of("9"), sidecar("3"), of("7"), sidecar("5")]);
        check(json!({"containers": [of("1")], "initContainers": init}), Some(10));
        check(json!({"containers": [{"resources": {"limits": {"memory": "6"}}}]}), Some(6));
    }

    /// L-PRESS-7, resource by resource.
    #[test]
    fn pod_level_values_go_first() {
        let containers = json!([{"resources": {"requests": {"memory": "2"}}}]);
        let of = |resources| json!({"containers": containers, "resources": resources});
        check(of(json!({"requests": {"memory": "9"}})), Some(9));
        check(of(json!({"requests": {"cpu": "9"}, "limits": {"memory": "8"}})), Some(2));
        check(json!({"resources": {"limits": {"memory": "8"}}}), Some(8));
    }

    #[test]
    fn bad_quantities_are_refused_with_their_field() {
        let spec = json!({"initContainers": [{}, {"resources": {"limits": {"memory": "-1"}}}]});
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(
            of_pod(&spec, "memory").unwrap_err().to_string(),
            "`initContainers[1].resources.limits[memory]`: `-1` is negative"
        );
    }
}
