//! Changes of a pod, made to the wire object.

use berth_engine::{Cluster, RemedyChange};
use berth_proto::{Quantity, core_v1};

/// Makes the change if it concerns the pod; returns whether it does.
pub(crate) fn apply(change: &RemedyChange, pod: &mut core_v1::Pod) -> bool {
    match change {
        RemedyChange::RequestLess { resource, amount } => {
            let compiled = Cluster::new().compile_pod(pod).expect("pods compile").requests();
            let of_resource = compiled.iter().find(|(name, _)| name == resource);
            let left = of_resource.expect("something is requested").1 - amount;
            assert!(left > 0 && *amount > 0);
            request(pod.spec.get_or_insert_default(), resource, left);
            true
        }
        RemedyChange::ProvideVolume { claim } => {
            provide(claim, pod);
            true
        }
        _ => apply_to_spec(change, pod.spec.get_or_insert_default()),
    }
}

/// Leaves a claim out of the pod: that is what a volume which every node can use amounts to.
fn provide(claim: &str, pod: &mut core_v1::Pod) {
    let name = pod.metadata.as_ref().map_or("", |metadata| &metadata.name).to_owned();
    let volumes = &mut pod.spec.get_or_insert_default().volumes;
    let n_before = volumes.len();
    volumes.retain(|volume| {
        let Some(source) = &volume.volume_source else {
            return true;
        };
        let direct = source.persistent_volume_claim.as_ref();
        let is_direct = direct.is_some_and(|direct| direct.claim_name == claim);
        let is_made = source.ephemeral.is_some() && format!("{name}-{}", volume.name) == claim;
        !is_direct && !is_made
    });
    assert!(volumes.len() < n_before, "`{claim}` is in the pod");
}

fn apply_to_spec(change: &RemedyChange, spec: &mut core_v1::PodSpec) -> bool {
    match change {
        RemedyChange::Tolerate { key, value, effect } => {
            spec.tolerations.push(core_v1::Toleration {
                key: key.to_string(),
                operator: "Equal".to_owned(),
                value: value.to_string(),
                effect: effect.unwrap_or_default().to_owned(),
                ..Default::default()
            });
        }
        RemedyChange::DropNodeSelector { key, value } => {
            assert_eq!(spec.node_selector.remove(&**key).as_deref(), Some(&**value));
        }
        RemedyChange::DropNodeRequirement { .. } => drop_requirement(change, spec),
        RemedyChange::DropNodeConstraints { node_selector, node_affinity } => {
            assert!(*node_selector || *node_affinity);
            if *node_selector {
                assert!(!spec.node_selector.is_empty());
                spec.node_selector.clear();
            }
            if *node_affinity {
                assert!(required(spec).take().is_some());
            }
        }
        RemedyChange::RaiseMaxSkew { constraint, max_skew } => {
            let constraint = &mut spec.topology_spread_constraints[*constraint];
            assert!(*max_skew > constraint.max_skew);
            constraint.max_skew = *max_skew;
        }
        RemedyChange::LowerMinDomains { constraint, min_domains } => {
            let constraint = &mut spec.topology_spread_constraints[*constraint];
            assert!((1..constraint.min_domains.expect("a minimum")).contains(min_domains));
            constraint.min_domains = Some(*min_domains);
        }
        RemedyChange::SoftenSpread { constraint } => {
            let constraint = &mut spec.topology_spread_constraints[*constraint];
            assert_eq!(constraint.when_unsatisfiable, "DoNotSchedule");
            constraint.when_unsatisfiable = "ScheduleAnyway".to_owned();
        }
        RemedyChange::DropPodAffinity { term } => {
            let affinity = spec.affinity.as_mut().and_then(|a| a.pod_affinity.as_mut());
            let affinity = affinity.expect("pod affinity");
            affinity.required_during_scheduling_ignored_during_execution.remove(*term);
        }
        RemedyChange::DropPodAntiAffinity { term } => {
            let affinity = spec.affinity.as_mut().and_then(|a| a.pod_anti_affinity.as_mut());
            let affinity = affinity.expect("pod anti-affinity");
            affinity.required_during_scheduling_ignored_during_execution.remove(*term);
        }
        RemedyChange::DropHostPort { port, protocol, ip } => {
            let is_meant = |claimed: &core_v1::ContainerPort| {
                let or = |text: &str, default: &str| match text {
                    "" => default.to_owned(),
                    text => text.to_owned(),
                };
                claimed.host_port == *port
                    && or(&claimed.protocol, "TCP") == **protocol
                    && or(&claimed.host_ip, "0.0.0.0") == **ip
            };
            for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
                container.ports.retain(|claimed| !is_meant(claimed));
            }
        }
        _ => return false,
    }
    true
}

/// Makes one container request the whole amount.
fn request(spec: &mut core_v1::PodSpec, resource: &str, amount: i64) {
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    let of_containers = containers.map(|container| &mut container.resources);
    for resources in of_containers.chain([&mut spec.resources]).flatten() {
        resources.requests.remove(resource);
    }
    spec.overhead.remove(resource);
    let unit = if resource == "cpu" { "m" } else { "" };
    let requests = &mut spec.containers[0].resources.get_or_insert_default().requests;
    requests.insert(resource.to_owned(), Quantity::new(format!("{amount}{unit}")));
}

fn required(spec: &mut core_v1::PodSpec) -> &mut Option<core_v1::NodeSelector> {
    let affinity = spec.affinity.as_mut().and_then(|a| a.node_affinity.as_mut());
    &mut affinity.expect("node affinity").required_during_scheduling_ignored_during_execution
}

fn drop_requirement(change: &RemedyChange, spec: &mut core_v1::PodSpec) {
    let RemedyChange::DropNodeRequirement { key, operator, values } = change else {
        return;
    };
    let is_meant = |requirement: &core_v1::NodeSelectorRequirement| {
        let mut present = requirement.values.clone();
        present.sort();
        if matches!(*operator, "Gt" | "Lt") {
            present =
                present.iter().filter_map(|v| Some(v.parse::<i64>().ok()?.to_string())).collect();
        }
        let present: Vec<&str> = present.iter().map(String::as_str).collect();
        let values: Vec<&str> = values.iter().map(|value| &**value).collect();
        requirement.key == **key && requirement.operator == *operator && present == values
    };
    let selector = required(spec).as_mut().expect("required node affinity");
    let (mut is_found, mut asks_nothing) = (false, false);
    for term in &mut selector.node_selector_terms {
        let n_before = term.match_expressions.len();
        term.match_expressions.retain(|requirement| !is_meant(requirement));
        if term.match_expressions.len() < n_before {
            is_found = true;
            asks_nothing |= term.match_expressions.is_empty() && term.match_fields.is_empty();
        }
    }
    assert!(is_found, "{change:?} is in the pod");
    if asks_nothing {
        *required(spec) = None;
    }
}
