//! Requests and limits: the defaults that the API derives from one another, and sums over the containers. Rules:
//! A-DEF-9, A-DEF-10, A-DEF-11.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Container, Pod, PodSpec, ResourceRequirements};
use berth_proto::{Amount, Quantity};

use super::filling::{DEFAULT, Filling};
use crate::model::ModelError;
use crate::model::label::clip;
use crate::model::requests::{Options, PodRequests, is_pod_level_name, rounded_up};

/// Fills in amounts of a pod's containers and of the pod itself.
pub(super) fn fill(spec: &mut PodSpec, filling: &mut Filling) {
    round_up(&mut spec.overhead, "spec.overhead", filling);
    for (containers, field) in [
        (&mut spec.init_containers, "spec.initContainers"),
        (&mut spec.containers, "spec.containers"),
    ] {
        for (index, container) in containers.iter_mut().enumerate() {
            if let Some(resources) = &mut container.resources {
                let at = format!("{field}[{index}].resources");
                round_up(&mut resources.limits, &format!("{at}.limits"), filling);
                round_up(&mut resources.requests, &format!("{at}.requests"), filling);
                let ResourceRequirements { limits, requests, .. } = resources;
                filling.amounts(requests, limits, &format!("{at}.requests"), "limits");
            }
        }
    }
    if let Some(resources) = &mut spec.resources {
        round_up(&mut resources.limits, "spec.resources.limits", filling);
        round_up(&mut resources.requests, "spec.resources.requests", filling);
        of_pod(spec, filling);
    }
}

/// Rounds amounts finer than a thousandth up to one (A-DEF-9). What cannot be read is refused later.
fn round_up(list: &mut BTreeMap<String, Quantity>, field: &str, filling: &mut Filling) {
    for (name, quantity) in list {
        let Ok(amount) = quantity.parse() else { continue };
        if let Some(coarser) = rounded_up(amount) {
            *quantity = coarser;
            filling.note(format!("{field}[{}]", clip(name)), quantity.as_str(), DEFAULT);
        }
    }
}

/// Fills in limits and requests of the pod as a whole (A-DEF-11).
fn of_pod(spec: &mut PodSpec, filling: &mut Filling) {
    let Some(resources) = &spec.resources else { return };
    if resources.limits.is_empty() && resources.requests.is_empty() {
        return;
    }
    let sums = |of: AmountsOf| of_containers(spec, of).unwrap_or_default();
    let limits = as_quantities(sums(AmountsOf::Limits), is_huge_pages);
    let requests = as_quantities(sums(AmountsOf::Requests), |name| {
        is_pod_level_name(name) && !is_huge_pages(name)
    });
    let Some(resources) = &mut spec.resources else { return };
    let field = "spec.resources.limits";
    filling.amounts(&mut resources.limits, &limits, field, "containers");
    if resources.limits.is_empty() {
        return;
    }
    let field = "spec.resources.requests";
    filling.amounts(&mut resources.requests, &requests, field, "containers");
    let limits = resources.limits.iter().filter(|(name, _)| is_pod_level_name(name));
    let limits = limits.map(|(name, amount)| (name.clone(), amount.clone())).collect();
    filling.amounts(&mut resources.requests, &limits, field, "limits");
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn as_quantities(
    amounts: BTreeMap<String, Amount>,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, Quantity> {
    let wanted = amounts.into_iter().filter(|(name, _)| is_wanted(name));
    wanted.map(|(name, amount)| (name.clone(), Quantity::new(text(&name, amount)))).collect()
}

/// Which amounts of containers are summed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum AmountsOf {
    Requests,
    Limits,
}

/// The sum over the containers, init containers counted as for requests (S-FIT-2); without pod-level values and
/// overhead.
///
/// # Errors
/// [`ModelError`] for an amount that cannot be read, or is negative.
pub(super) fn of_containers(
    spec: &PodSpec,
    of: AmountsOf,
) -> Result<BTreeMap<String, Amount>, ModelError> {
    let bare = |containers: &[Container]| containers.iter().map(|it| counted(it, of)).collect();
    let spec = PodSpec {
        containers: bare(&spec.containers),
        init_containers: bare(&spec.init_containers),
        ..PodSpec::default()
    };
    sum(spec)
}

/// The sum of a pod with its pod-level values; with the overhead if `with_overhead`, which counts towards limits only
/// where there is one.
///
/// # Errors
/// [`ModelError`] for an amount that cannot be read, or is negative.
pub(super) fn of_whole_pod(
    spec: &PodSpec,
    of: AmountsOf,
    with_overhead: bool,
) -> Result<BTreeMap<String, Amount>, ModelError> {
    let bare = |containers: &[Container]| containers.iter().map(|it| counted(it, of)).collect();
    let resources = spec.resources.as_ref().map(|resources| as_requests(resources, of));
    let mut amounts = sum(PodSpec {
        containers: bare(&spec.containers),
        init_containers: bare(&spec.init_containers),
        resources,
        ..PodSpec::default()
    })?;
    if with_overhead {
        let overhead = PodSpec { overhead: spec.overhead.clone(), ..PodSpec::default() };
        for (name, amount) in sum(overhead)? {
            match (amounts.get_mut(&name), of) {
                (Some(sum), _) => *sum += amount,
                (None, AmountsOf::Requests) => drop(amounts.insert(name, amount)),
                (None, AmountsOf::Limits) => {}
            }
        }
    }
    Ok(amounts)
}

fn sum(spec: PodSpec) -> Result<BTreeMap<String, Amount>, ModelError> {
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    let amounts = PodRequests::parse(&pod)?.aggregate(Options::default()).into_iter();
    Ok(amounts.map(|(name, amount)| (name.to_owned(), amount)).collect())
}

/// A container with nothing but its kind and its amounts, as requests.
fn counted(container: &Container, of: AmountsOf) -> Container {
    let resources = container.resources.as_ref().map(|resources| as_requests(resources, of));
    let restart_policy = container.restart_policy.clone();
    Container { resources, restart_policy, ..Container::default() }
}

fn as_requests(resources: &ResourceRequirements, of: AmountsOf) -> ResourceRequirements {
    let requests = match of {
        AmountsOf::Requests => resources.requests.clone(),
        AmountsOf::Limits => resources.limits.clone(),
    };
    ResourceRequirements { requests, ..ResourceRequirements::default() }
}

/// An amount as a quantity's text: bytes in the largest binary unit that keeps them whole.
pub(super) fn text(name: &str, amount: Amount) -> String {
    const BINARY: [(&str, i64); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let milli = amount.milli_value();
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    let value = amount.value();
    let is_bytes =
        name.contains("memory") || name.contains("storage") || name.contains("hugepages");
    let unit = BINARY.iter().find(|(_, bits)| value != 0 && value % (1 << bits) == 0);
    match unit.filter(|_| is_bytes) {
        Some((suffix, bits)) => format!("{}{suffix}", value >> bits),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(json: &str) -> Vec<String> {
        let mut spec: PodSpec = serde_json::from_str(json).unwrap();
        let mut filling = Filling::default();
        fill(&mut spec, &mut filling);
        let lines = filling.finish().filled.into_iter();
        let lines =
            lines.map(|it| format!("{} = {} ({})", it.field, it.value, it.source)).collect();
        let mut again = Filling::default();
        fill(&mut spec, &mut again);
        assert_eq!(again.finish().filled, []);
        lines
    }

    /// A-DEF-9, A-DEF-10
    #[test]
    fn limits_become_requests() {
        let lines = filled(
            r#"{"containers": [{"resources": {"limits": {"cpu": "300", "memory": "1Gi"}, "requests": {"memory": "1Mi"}}}],
                "initContainers": [{"resources": {"limits": {"cpu": "100u"}}}]}"#,
        );
        let expected = [
            "spec.initContainers[0].resources.limits[cpu] = 1m (default)",
            "spec.initContainers[0].resources.requests[cpu] = 1m (limits)",
            "spec.containers[0].resources.requests[cpu] = 300 (limits)",
        ];
        assert_eq!(lines, expected);
    }

    /// A-DEF-11
    #[test]
    fn pod_level_resources() {
        let containers = r#""containers": [
            {"resources": {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "4Mi"}}},
            {"resources": {"requests": {"cpu": "500m"}}}], "overhead": {"cpu": "7"}"#;
        let of = |resources: &str| {
            let lines = filled(&format!(r#"{{{containers}, "resources": {resources}}}"#));
            let of_pod = lines.iter().filter_map(|line| line.strip_prefix("spec.resources."));
            of_pod.map(str::to_owned).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(of("{}"), "");
        assert_eq!(
            of(r#"{"limits": {"cpu": "4", "memory": "1Gi"}}"#),
            "limits[hugepages-2Mi] = 4Mi (containers); requests[cpu] = 1500m (containers); \
             requests[hugepages-2Mi] = 4Mi (limits); requests[memory] = 1Gi (limits)"
        );
    }

    #[test]
    fn amounts_as_text() {
        for (name, milli, expected) in [
            ("cpu", 1_500, "1500m"),
            ("cpu", 1_024_000, "1024"),
            ("memory", 1_024_000, "1Ki"),
            ("requests.memory", 3 << 30, "3221225472m"),
            ("memory", 0, "0"),
        ] {
            assert_eq!(text(name, Amount::from_milli(milli)), expected);
        }
        assert_eq!(text("memory", Amount::from_value(3 << 30)), "3Gi");
    }
}
