//! Requests of a pod: exact sums, rounded once. Rules: S-FIT-1 to S-FIT-6, S-RS-3, S-RS-4.

use std::collections::BTreeMap;

use berth_proto::{Quantity, core_v1};

use super::names::is_tracked;
use super::quantity::{Nanos, nanos, units};

/// Tracked resources in integer units; an absent name is 0.
pub(crate) type Units = BTreeMap<String, i64>;

type Amounts = BTreeMap<String, Nanos>;

/// Selects one of the specification's sums.
#[derive(Copy, Clone)]
struct Sum {
    /// The larger of spec and status (S-FIT-5).
    uses_status: bool,
    /// 100 m and 200 Mi for containers without an entry (S-RS-3).
    has_defaults: bool,
    /// Pod-level values replace those of containers (S-FIT-3).
    has_pod_level: bool,
}

/// Returns the requests that NodeResourcesFit checks: status is ignored (S-FIT-5).
pub(crate) fn to_fit(pod: &core_v1::Pod) -> Units {
    total(pod, Sum { uses_status: false, has_defaults: false, has_pod_level: true })
}

/// Returns the requests that NodeResourcesFit scores: with defaults, without pod-level values (S-RS-4).
pub(crate) fn to_score(pod: &core_v1::Pod) -> Units {
    total(pod, Sum { uses_status: false, has_defaults: true, has_pod_level: false })
}

/// Returns the resources that a pod uses of its node (S-FIT-5), which BalancedAllocation adds, too (S-BA-2).
pub(crate) fn on_node(pod: &core_v1::Pod) -> Units {
    total(pod, Sum { uses_status: true, has_defaults: false, has_pod_level: true })
}

/// Returns the resources that a pod uses of its node, with the scoring defaults (S-RS-3).
pub(crate) fn on_node_non_zero(pod: &core_v1::Pod) -> Units {
    total(pod, Sum { uses_status: true, has_defaults: true, has_pod_level: true })
}

fn total(pod: &core_v1::Pod, sum: Sum) -> Units {
    let amounts = aggregate(pod, sum);
    let tracked = amounts.into_iter().filter(|(name, _)| is_tracked(name));
    tracked.map(|(name, amount)| (name.clone(), units(&name, amount))).collect()
}

/// S-FIT-2 to S-FIT-4
fn aggregate(pod: &core_v1::Pod, sum: Sum) -> Amounts {
    let spec = pod.spec.as_ref().expect("pods have a spec");
    let defaults = if sum.has_defaults { defaults(pod, sum) } else { Amounts::new() };
    let request = |container: &core_v1::Container, uses_status: bool| {
        let mut request = container_request(pod, container, uses_status);
        for (name, default) in &defaults {
            request.entry(name.clone()).or_insert(*default);
        }
        request
    };
    // C, S and I of S-FIT-2.
    let (mut containers, mut sidecars, mut init) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in &spec.containers {
        add(&mut containers, &request(container, sum.uses_status));
    }
    for container in &spec.init_containers {
        let mut candidate = sidecars.clone();
        if container.restart_policy.as_deref() == Some("Always") {
            let request = request(container, sum.uses_status);
            add(&mut containers, &request);
            add(&mut sidecars, &request);
            add(&mut candidate, &request);
        } else {
            add(&mut candidate, &request(container, false));
        }
        raise(&mut init, &candidate);
    }
    let mut total = containers;
    raise(&mut total, &init);
    if sum.has_pod_level {
        for (name, amount) in pod_level(pod, sum.uses_status) {
            total.insert(name, amount);
        }
    }
    add(&mut total, &amounts(&spec.overhead));
    total
}

/// S-RS-3
fn defaults(pod: &core_v1::Pod, sum: Sum) -> Amounts {
    let mut defaults = Amounts::from([
        ("cpu".to_owned(), nanos(&"100m".into())),
        ("memory".to_owned(), nanos(&"209715200".into())),
    ]);
    if sum.has_pod_level && !pod_level(pod, false).is_empty() {
        let present = aggregate(pod, Sum { has_defaults: false, ..sum });
        defaults.retain(|name, _| !present.contains_key(name));
    }
    defaults
}

/// S-FIT-5
fn container_request(
    pod: &core_v1::Pod,
    container: &core_v1::Container,
    uses_status: bool,
) -> Amounts {
    let spec = container.resources.as_ref().map(|r| amounts(&r.requests)).unwrap_or_default();
    let Some(status) = pod.status.as_ref().filter(|_| uses_status) else {
        return spec;
    };
    let mut statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
    let of_container = statuses.rfind(|s| s.name == container.name);
    let Some((actual, allocated)) =
        of_container.and_then(|s| Some((s.resources.as_ref()?, &s.allocated_resources)))
    else {
        return spec;
    };
    larger(spec, &amounts(&actual.requests), &amounts(allocated), is_resize_infeasible(status))
}

/// Pod-level values of the names that count there; empty when none is set (S-FIT-3, S-FIT-5).
fn pod_level(pod: &core_v1::Pod, uses_status: bool) -> Amounts {
    let counts = |name: &String, _: &mut Nanos| {
        name == "cpu" || name == "memory" || name.starts_with("hugepages-")
    };
    let spec = pod.spec.as_ref().expect("pods have a spec");
    let mut requests = spec.resources.as_ref().map(|r| amounts(&r.requests)).unwrap_or_default();
    requests.retain(counts);
    if requests.is_empty() {
        return requests;
    }
    if let Some(status) = pod.status.as_ref().filter(|_| uses_status)
        && let Some(actual) = &status.resources
    {
        let allocated = amounts(&status.allocated_resources);
        requests =
            larger(requests, &amounts(&actual.requests), &allocated, is_resize_infeasible(status));
        requests.retain(counts);
    }
    requests
}

fn larger(spec: Amounts, actual: &Amounts, allocated: &Amounts, is_spec_left_out: bool) -> Amounts {
    let mut request = if is_spec_left_out { Amounts::new() } else { spec };
    raise(&mut request, actual);
    raise(&mut request, allocated);
    request
}

fn is_resize_infeasible(status: &core_v1::PodStatus) -> bool {
    status.conditions.iter().any(|c| c.r#type == "PodResizePending" && c.reason == "Infeasible")
}

fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    list.iter().map(|(name, quantity)| (name.clone(), nanos(quantity))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *sum.entry(name.clone()).or_default() += amount;
    }
}

fn raise(maximum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = maximum.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(sum: fn(&core_v1::Pod) -> Units, pod: serde_json::Value, expected: &[(&str, i64)]) {
        let expected: Units =
            expected.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        assert_eq!(sum(&serde_json::from_value(pod).unwrap()), expected);
    }

    /// The worked examples of request arithmetic in section 2.6.
    #[test]
    fn worked_examples() {
        let request = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let mut pod = json!({"spec": {
            "initContainers": [
                {"name": "i1", "resources": request("2")},
                {"name": "s1", "restartPolicy": "Always", "resources": request("1")},
                {"name": "i2", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
            ],
            "containers": [
                {"name": "c1", "resources": request("1")},
                {"name": "c2", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}},
            ],
            "overhead": {"cpu": "250m"},
        }});
        check(to_fit, pod.clone(), &[("cpu", 4250), ("memory", 1 << 30)]);
        pod["spec"]["resources"] = request("10");
        check(to_fit, pod, &[("cpu", 10250), ("memory", 1 << 30)]);
        let halves = json!([{"name": "a", "resources": request("0.5m")}, {"name": "b", "resources": request("0.5m")}]);
        check(to_fit, json!({"spec": {"containers": halves}}), &[("cpu", 1)]);
        check(to_fit, json!({"spec": {"containers": [{"name": "a"}]}}), &[]);
    }

    /// The worked examples of resized pods in section 2.6.
    #[test]
    fn worked_examples_of_status() {
        let pod = |spec: &str, has_resources: bool, infeasible: bool| {
            let mut status = json!({"name": "a", "allocatedResources": {"cpu": "2"}});
            if has_resources {
                status["resources"] = json!({"requests": {"cpu": "3"}});
            }
            let conditions = json!([{"type": "PodResizePending", "reason": if infeasible { "Infeasible" } else { "" }}]);
            json!({
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": spec}}}]},
                "status": {"containerStatuses": [status], "conditions": conditions},
            })
        };
        check(on_node, pod("1", true, false), &[("cpu", 3000)]);
        check(to_fit, pod("1", true, false), &[("cpu", 1000)]);
        check(on_node, pod("5", true, false), &[("cpu", 5000)]);
        check(on_node, pod("5", true, true), &[("cpu", 3000)]);
        check(on_node, pod("5", false, true), &[("cpu", 5000)]);
    }
}
