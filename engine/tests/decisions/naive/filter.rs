//! The filters, one function each: `None` is a pass. Rules: section 2 of the specification, S-PLG-3.

use berth_engine::{NodeAffinityArgs, NodeResourcesFitArgs, Plugin, StatusCode};
use berth_proto::core_v1::{Pod, Taint};

use super::cluster::{NaiveNode, wanted_ports};
use super::names::is_extended;
use super::node_selector::selects;
use super::pre_filter::Prepared;
use super::requests::Units;
use super::toleration::{hard_taints, is_tolerated};
use super::{volume_binding, volume_limits, volume_zone};

/// Why a node is not feasible.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rejection {
    pub(crate) code: StatusCode,
    pub(crate) reasons: Vec<String>,
}

/// An internal error, which ends the attempt (S-CYC-10).
#[derive(Debug)]
pub(crate) struct Failure;

/// Returns the first plugin that fails, in the policy's order (S-PLG-3).
pub(crate) fn first_failure(
    prepared: &Prepared<'_>,
    node: &NaiveNode,
) -> Result<Option<(Plugin, Rejection)>, Failure> {
    for plugin in &prepared.policy.filter {
        if let Some(rejection) = rejection(*plugin, prepared, node)? {
            return Ok(Some((*plugin, rejection)));
        }
    }
    Ok(None)
}

fn rejection(
    plugin: Plugin,
    prepared: &Prepared<'_>,
    node: &NaiveNode,
) -> Result<Option<Rejection>, Failure> {
    let Prepared { cluster, policy, pod, .. } = *prepared;
    Ok(match plugin {
        Plugin::NodeUnschedulable => node_unschedulable(pod, node),
        Plugin::NodeName => node_name(pod, node),
        Plugin::TaintToleration => taint_toleration(pod, node),
        Plugin::NodeAffinity => node_affinity(&policy.node_affinity, pod, node),
        Plugin::NodePorts => node_ports(pod, node),
        Plugin::NodeResourcesFit => {
            node_resources_fit(&policy.node_resources_fit, &prepared.request, node)
        }
        Plugin::VolumeRestrictions => {
            prepared.restrictions.as_ref().and_then(|restrictions| restrictions.filter(pod, node))
        }
        Plugin::NodeVolumeLimits => volume_limits::filter(cluster, pod, node)?,
        Plugin::VolumeBinding => volume_binding::filter(cluster, pod, node)?.err(),
        Plugin::VolumeZone => volume_zone::filter(&prepared.zones, node),
        Plugin::PodTopologySpread => prepared.spread.as_ref().and_then(|hard| hard.filter(node)),
        Plugin::InterPodAffinity => prepared.affinity.as_ref().and_then(|terms| terms.filter(node)),
        Plugin::NodeDeclaredFeatures => node_declared_features(pod, node),
        _ => None,
    })
}

pub(crate) fn unresolvable(reason: &str) -> Option<Rejection> {
    Some(Rejection {
        code: StatusCode::UnschedulableAndUnresolvable,
        reasons: vec![reason.to_owned()],
    })
}

/// S-UNS-1
fn node_unschedulable(pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let is_cordoned = node.node.spec.as_ref().is_some_and(|spec| spec.unschedulable);
    if is_cordoned && !is_tolerated(pod, &cordon) {
        unresolvable("node(s) were unschedulable")
    } else {
        None
    }
}

/// S-NAM-1
fn node_name(pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let wanted = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    let name = node.node.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let differs = !wanted.is_empty() && wanted != name;
    if differs { unresolvable("node(s) didn't match the requested node name") } else { None }
}

/// S-TNT-1, S-TNT-4
fn taint_toleration(pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let has_untolerated = hard_taints(&node.node).any(|taint| !is_tolerated(pod, taint));
    if has_untolerated { unresolvable("node(s) had untolerated taint(s)") } else { None }
}

/// S-NAF-3, S-NAF-4
fn node_affinity(args: &NodeAffinityArgs, pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let added = args.added_affinity.as_ref();
    if let Some(required) =
        added.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
        && !selects(required, &node.node)
    {
        return unresolvable("node(s) didn't match scheduler-enforced node affinity");
    }
    if is_affine(pod, node) {
        None
    } else {
        unresolvable("node(s) didn't match Pod's node affinity/selector")
    }
}

/// Whether the node matches the pod's own node selector and required node affinity (S-NAF-4).
pub(crate) fn is_affine(pod: &Pod, node: &NaiveNode) -> bool {
    let spec = pod.spec.as_ref().expect("pods have a spec");
    let required =
        spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()).and_then(
            |affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref(),
        );
    spec.node_selector.iter().all(|(key, value)| node.label(key) == Some(value.as_str()))
        && required.is_none_or(|required| selects(required, &node.node))
}

/// S-PRT-3, S-PRT-4
fn node_ports(pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let any = "0.0.0.0";
    let conflicts = wanted_ports(pod).iter().any(|wanted| {
        node.used_ports.iter().any(|used| {
            (used.port == wanted.port && used.protocol == wanted.protocol)
                && (used.ip == wanted.ip || used.ip == any || wanted.ip == any)
        })
    });
    let reason = "node(s) didn't have free ports for the requested pod ports";
    conflicts
        .then(|| Rejection { code: StatusCode::Unschedulable, reasons: vec![reason.to_owned()] })
}

/// S-FIT-8 to S-FIT-11
fn node_resources_fit(
    args: &NodeResourcesFitArgs,
    request: &Units,
    node: &NaiveNode,
) -> Option<Rejection> {
    let mut reasons = Vec::new();
    let mut code = StatusCode::Unschedulable;
    let n_pods = i64::try_from(node.pods.len()).expect("few");
    if n_pods + 1 > node.allocatable("pods") {
        reasons.push("Too many pods".to_owned());
    }
    // Scalar resources come in byte order of their names.
    let native = ["cpu", "memory", "ephemeral-storage"];
    let scalars = request.keys().map(String::as_str).filter(|name| !native.contains(name));
    for resource in native.into_iter().chain(scalars) {
        let amount = request.get(resource).copied().unwrap_or(0);
        if amount == 0 || is_ignored(args, resource) {
            continue;
        }
        let allocatable = node.allocatable(resource);
        if amount > allocatable - node.requested(resource) {
            reasons.push(format!("Insufficient {resource}"));
            if amount > allocatable {
                code = StatusCode::UnschedulableAndUnresolvable;
            }
        }
    }
    (!reasons.is_empty()).then_some(Rejection { code, reasons })
}

/// S-FIT-11
fn is_ignored(args: &NodeResourcesFitArgs, resource: &str) -> bool {
    let group = resource.split('/').next().unwrap_or("");
    is_extended(resource)
        && (args.ignored_resources.iter().any(|ignored| ignored == resource)
            || args.ignored_resource_groups.iter().any(|ignored| ignored == group))
}

/// S-NDF-1, S-NDF-2
fn node_declared_features(pod: &Pod, node: &NaiveNode) -> Option<Rejection> {
    let spec = pod.spec.as_ref()?;
    let mut required = Vec::new();
    let rules =
        spec.containers.iter().chain(&spec.init_containers).flat_map(|c| &c.restart_policy_rules);
    if rules.into_iter().any(|rule| rule.action == "RestartAllContainers") {
        required.push("RestartAllContainersOnContainerExits");
    }
    if spec.host_network && spec.host_users == Some(false) {
        required.push("UserNamespacesHostNetworkSupport");
    }
    let declared = node.node.status.as_ref().map_or(&[][..], |status| &status.declared_features);
    let has_all =
        required.iter().all(|feature| declared.iter().any(|declared| declared == feature));
    if has_all { None } else { unresolvable("node(s) didn't match Pod's required features") }
}
