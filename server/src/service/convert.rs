//! Engine ↔ wire, both ways, every variant by name: a variant that is added on one side does not compile until it is
//! added here.

mod account;
mod preemption;
mod stored;

use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{
    Cluster, Delta, ModelError, ObjectKey, ObjectKind, PodKey, Policy, TieBreak, WireObject,
};
use berth_proto::berth_v1 as wire;
use berth_proto::core_v1;

use super::error::CallError;
use super::unset;
use crate::escape::presentable;
use crate::feed::object_name;
use crate::policy::Profiles;
use crate::policy::configuration::DEFAULT_SCHEDULER_NAME;

pub(crate) use account::{explanation, remedy};
pub(crate) use preemption::{
    candidate_list, gang, gang_outcome, preempt_options, preemption, recorded_gang,
    recorded_options,
};
pub(crate) use stored::{stored_devices, stored_volumes};

/// Whether a decision assumes its pod on the node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    DryRun,
    Assume,
}

pub(crate) fn mode(value: i32) -> Result<Mode, CallError> {
    match wire::PlaceMode::try_from(value) {
        Ok(wire::PlaceMode::Unspecified | wire::PlaceMode::DryRun) => Ok(Mode::DryRun),
        Ok(wire::PlaceMode::Assume) => Ok(Mode::Assume),
        Err(_) => Err(CallError::field("mode", format!("`{value}` is no place mode"))),
    }
}

/// The tie-breaking rule of the request, or the server's if it has none.
pub(crate) fn tie_break(
    value: Option<&wire::TieBreak>,
    configured: TieBreak,
) -> Result<TieBreak, CallError> {
    let Some(value) = value else {
        return Ok(configured);
    };
    match wire::TieBreakRule::try_from(value.rule) {
        Ok(wire::TieBreakRule::Unspecified) => Ok(configured),
        Ok(wire::TieBreakRule::Seeded) => Ok(TieBreak::Seeded(value.seed)),
        Ok(wire::TieBreakRule::Lexicographic) => Ok(TieBreak::Lexicographic),
        Err(_) => Err(CallError::field(
            "tie_break.rule",
            format!("`{}` is no tie-break rule", value.rule),
        )),
    }
}

/// Compiles a pod to be placed, and finds the profile that its `spec.schedulerName` names (S-Q-2).
///
/// Where `keeps_object` is set, the compiled pod has its object. Field paths start inside the pod. Refused are a missing or malformed pod, one that is being deleted (S-Q-9) or has
/// ended (S-Q-1), and one of a scheduler that is not configured here.
pub(crate) fn pod_to_place<'s>(
    cluster: &Cluster,
    profiles: &'s Profiles,
    pod: Option<&core_v1::Pod>,
    keeps_object: bool,
) -> Result<(engine::Pod, &'s Policy), CallError> {
    let pod = pod.ok_or_else(no_pod)?;
    check_placeable(pod)?;
    let compiled = match keeps_object {
        true => cluster.compile_kept_pod(pod)?,
        false => cluster.compile_pod(pod)?,
    };
    Ok((compiled, policy_of(pod, profiles)?))
}

/// The error of a request without a pod.
pub(crate) fn no_pod() -> CallError {
    CallError::field("pod", "must be set")
}

/// Checks a pod that is to be placed. Two pods that differ in name and uid only both pass, or neither.
pub(crate) fn check_placeable(pod: &core_v1::Pod) -> Result<(), CallError> {
    unset::check_pod(pod)?;
    if pod.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some()) {
        return Err(CallError::field(
            "metadata.deletionTimestamp",
            "a pod that is being deleted is not placed",
        ));
    }
    let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
    if matches!(phase, "Succeeded" | "Failed") {
        return Err(CallError::field(
            "status.phase",
            format!("a pod that is `{phase}` is not placed"),
        ));
    }
    Ok(())
}

/// The profile that a pod's `spec.schedulerName` names (S-Q-2).
pub(crate) fn policy_of<'s>(
    pod: &core_v1::Pod,
    profiles: &'s Profiles,
) -> Result<&'s Policy, CallError> {
    let scheduler_name = pod.spec.as_ref().map_or("", |spec| &*spec.scheduler_name);
    let policy = profiles.of_scheduler(scheduler_name);
    policy.map_err(|reason| CallError::field("spec.schedulerName", reason))
}

/// Names the scheduler of a pod that names none, before admission would: the only profile there is, or
/// `default-scheduler`, which is left to admission.
pub(crate) fn name_scheduler(profiles: &Profiles, pod: &mut core_v1::Pod) {
    let Some(spec) = &mut pod.spec else { return };
    if spec.scheduler_name.is_empty() && profiles.get(DEFAULT_SCHEDULER_NAME).is_none() {
        profiles.usual_name().clone_into(&mut spec.scheduler_name);
    }
}

macro_rules! delta {
    ($($kind:ident($message:ty) { upsert: $upsert:ident, $($rest:tt)* })+) => {
        /// Compiles a change. The refused object is named beside the error: ``Pod `default/web-0` ``.
        pub(crate) fn delta(cluster: &Cluster, delta: wire::Delta) -> Result<Delta, RefusedObject> {
            use wire::delta::Change;
            match delta.change {
                None => refused("Delta", "change", "must be set"),
                Some(Change::UpsertNode(node)) => upsert_node(cluster, &node),
                Some(Change::DeleteNode(name)) => delete_node(&name),
                Some(Change::UpsertPod(pod)) => upsert_pod(cluster, &pod),
                Some(Change::DeletePod(key)) => delete_pod(&key),
                $(Some(Change::$upsert(object)) => {
                    upsert_object(cluster, WireObject::$kind(&object))
                })+
                Some(Change::DeleteObject(key)) => delete_object(&key),
            }
        }
    };
}

berth_engine::object_kinds!(delta);

/// A refused object, for example ``Pod `default/web-0` ``, and the error.
type RefusedObject = (String, ModelError);

fn refused<T>(object: &str, field: &str, reason: &str) -> Result<T, RefusedObject> {
    Err((object.to_owned(), ModelError { field: field.to_owned(), reason: reason.to_owned() }))
}

fn upsert_node(cluster: &Cluster, node: &core_v1::Node) -> Result<Delta, RefusedObject> {
    match cluster.compile_node(node) {
        Ok(compiled) => Ok(Delta::UpsertNode(compiled)),
        Err(error) => Err((object_name("Node", node.metadata.as_ref()), error)),
    }
}

fn delete_node(name: &str) -> Result<Delta, RefusedObject> {
    if name.is_empty() {
        return refused("Node", "delete_node", "must not be empty");
    }
    Ok(Delta::DeleteNode(Arc::from(name)))
}

fn upsert_pod(cluster: &Cluster, pod: &core_v1::Pod) -> Result<Delta, RefusedObject> {
    match cluster.compile_reported_pod(pod) {
        Ok(compiled) => Ok(Delta::UpsertPod(compiled)),
        Err(error) => Err((object_name("Pod", pod.metadata.as_ref()), error)),
    }
}

fn delete_pod(key: &wire::PodKey) -> Result<Delta, RefusedObject> {
    if key.name.is_empty() {
        return refused("Pod", "delete_pod.name", "must not be empty");
    }
    // An empty namespace means `default`, as in the metadata of a pod.
    let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
    let uid = (!key.uid.is_empty()).then(|| Arc::from(key.uid.as_str()));
    Ok(Delta::DeletePod { key: PodKey::new(namespace, &key.name), uid })
}

fn upsert_object(cluster: &Cluster, object: WireObject<'_>) -> Result<Delta, RefusedObject> {
    match cluster.compile_object(object) {
        Ok(compiled) => Ok(Delta::UpsertObject(compiled)),
        Err(error) => Err((object_name(object.kind().name(), object.metadata()), error)),
    }
}

fn delete_object(key: &wire::ObjectKey) -> Result<Delta, RefusedObject> {
    let Some(kind) = ObjectKind::from_name(&key.kind) else {
        let known = ObjectKind::ALL.map(|kind| format!("`{kind}`")).join(", ");
        let reason = format!("`{}` is not one of {known}", key.kind);
        return refused("Object", "delete_object.kind", &reason);
    };
    if key.name.is_empty() {
        return refused(kind.name(), "delete_object.name", "must not be empty");
    }
    Ok(Delta::DeleteObject(ObjectKey::new(kind, &key.namespace, &key.name)))
}

pub(crate) fn rejection(index: usize, object: String, error: ModelError) -> wire::Rejection {
    let ModelError { field, reason } = error;
    let [field, reason, object] = [field, reason, object].map(|text| presentable(&text));
    wire::Rejection { index: saturate(index), field, reason, object }
}

pub(crate) fn decision(decision: engine::Decision) -> wire::Decision {
    use wire::decision::Outcome;
    let engine::Decision { pod, uid, generation, outcome } = decision;
    let outcome = match outcome {
        engine::Outcome::Placed(placement) => {
            let engine::Placement {
                node,
                total,
                n_feasible,
                n_best,
                assumed,
                stamp: _,
                volumes,
                devices,
            } = placement;
            Outcome::Placement(wire::Placement {
                node_name: node.to_string(),
                total_score: total,
                n_feasible_nodes: n_feasible,
                n_best_nodes: n_best,
                assumed,
                volumes: volume_bindings(volumes),
                devices: devices.map(|devices| Box::new(assigned_devices(&devices))),
                // The token is not known yet: see `service::delivery`.
                assumption: None,
            })
        }
        engine::Outcome::Unschedulable(refused) => Outcome::Unschedulable(unschedulable(refused)),
        engine::Outcome::Gated { plugin, reasons } => {
            Outcome::Gated(wire::Gated { plugin: plugin.name().to_owned(), reasons })
        }
    };
    wire::Decision {
        pod: Some(pod_key(&pod, &uid)),
        generation: generation.get(),
        outcome: Some(outcome),
    }
}

pub(crate) fn assigned_devices(devices: &engine::AssignedDevices) -> wire::AssignedDevices {
    let claim = |assigned: &engine::AssignedClaim| wire::ClaimAllocation {
        claim: assigned.claim.to_string(),
        allocation: Some(assigned.allocation.clone()),
    };
    let extended = |assigned: &engine::AssignedExtended| wire::ExtendedResourceAllocation {
        requests: assigned.requests.clone(),
        mappings: assigned.mappings.clone(),
        allocation: Some(assigned.allocation.clone()),
    };
    wire::AssignedDevices {
        claims: devices.claims.iter().map(claim).collect(),
        extended: devices.extended.as_ref().map(extended),
    }
}

pub(crate) fn unschedulable(unschedulable: engine::Unschedulable) -> wire::Unschedulable {
    let engine::Unschedulable { message, reasons, pre_filter, n_nodes: _ } = unschedulable;
    wire::Unschedulable {
        message,
        reasons: reasons.into_iter().map(reason_count).collect(),
        pre_filter_plugin: pre_filter
            .map(|(plugin, _, _)| plugin.name().to_owned())
            .unwrap_or_default(),
    }
}

pub(super) fn reason_count(reason: engine::CountedReason) -> wire::ReasonCount {
    let engine::CountedReason { plugin: _, text, n_nodes } = reason;
    wire::ReasonCount { reason: text, n_nodes }
}

/// The reason why a node does not take a pod.
pub(crate) fn node_refusal(refusal: engine::NodeRefusal) -> wire::NodeRejection {
    let engine::NodeRefusal { plugin, code, reasons } = refusal;
    wire::NodeRejection {
        plugin: plugin.map(|plugin| plugin.name().to_owned()).unwrap_or_default(),
        code: code.as_str().to_owned(),
        reasons,
        ..wire::NodeRejection::default()
    }
}

/// Volume bindings of a placement; `None` if the pod has no claim to bind or provision.
pub(crate) fn volume_bindings(volumes: engine::VolumeBindings) -> Option<wire::VolumeBindings> {
    if volumes == engine::VolumeBindings::default() {
        return None;
    }
    let engine::VolumeBindings { bound, provisioned } = volumes;
    let claim_binding = |(claim, volume): (Arc<str>, Arc<str>)| wire::ClaimBinding {
        claim: claim.to_string(),
        persistent_volume: volume.to_string(),
    };
    Some(wire::VolumeBindings {
        bound: bound.into_iter().map(claim_binding).collect(),
        provisioned: provisioned.iter().map(ToString::to_string).collect(),
    })
}

pub(crate) fn place_result(result: Result<engine::Decision, CallError>) -> wire::PlaceResult {
    use wire::place_result::Result as Wire;
    let result = match result {
        Ok(decided) => Wire::Decision(decision(decided)),
        Err(error) => Wire::Error(error.to_place_error()),
    };
    wire::PlaceResult { result: Some(result) }
}

pub(crate) fn node_verdict(verdict: engine::NodeVerdict) -> wire::NodeVerdict {
    let engine::NodeVerdict { node, verdict } = verdict;
    let node_name = node.to_string();
    match verdict {
        engine::Verdict::Feasible { scores, total, .. } => wire::NodeVerdict {
            node_name,
            feasible: true,
            rejection: None,
            scores: scores.iter().map(plugin_score).collect(),
            total_score: total,
            checks: Vec::new(),
        },
        engine::Verdict::Rejected { plugin, code, reasons } => wire::NodeVerdict {
            node_name,
            rejection: Some(wire::NodeRejection {
                plugin: plugin.map(|plugin| plugin.name().to_owned()).unwrap_or_default(),
                code: code.as_str().to_owned(),
                reasons,
                ..wire::NodeRejection::default()
            }),
            ..wire::NodeVerdict::default()
        },
    }
}

fn plugin_score(score: &engine::PluginScore) -> wire::PluginScore {
    let engine::PluginScore { plugin, raw, weighted } = score;
    wire::PluginScore {
        plugin: plugin.name().to_owned(),
        raw: *raw,
        weighted: *weighted,
        basis: None,
    }
}

pub(crate) fn node_summary(node: engine::NodeView) -> wire::NodeSummary {
    let engine::NodeView {
        name,
        unschedulable,
        labels,
        taints,
        allocatable,
        requested,
        n_pods,
        allowed_pods,
    } = node;
    wire::NodeSummary {
        name: name.to_string(),
        unschedulable,
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        taints,
        allocatable: amounts(allocatable),
        requested: amounts(requested),
        n_pods,
        allowed_pods: u32::try_from(allowed_pods.max(0)).unwrap_or(u32::MAX),
    }
}

/// The facts of a pod; what a feed reported of it is not filled in.
pub(crate) fn pod_summary(pod: &engine::Pod, node: &str, assumed: bool) -> wire::PodSummary {
    wire::PodSummary {
        key: Some(pod_key(pod.key(), pod.uid())),
        node_name: node.to_owned(),
        assumed,
        priority: pod.priority(),
        requests: amounts(pod.requests()),
        scheduler_name: pod.scheduler_name().to_owned(),
        nominated_node_name: pod.nominated_node_name().unwrap_or_default().to_owned(),
        ..wire::PodSummary::default()
    }
}

pub(crate) fn pod_key(key: &PodKey, uid: &str) -> wire::PodKey {
    wire::PodKey {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: uid.to_owned(),
    }
}

fn amounts(amounts: Vec<(Arc<str>, i64)>) -> std::collections::BTreeMap<String, i64> {
    amounts.into_iter().map(|(name, amount)| (name.to_string(), amount)).collect()
}

/// Converts a count to the 32 bits of the wire; nothing that Berth holds comes near the limit.
pub(crate) fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_means_the_servers_own_choice() {
        assert_eq!(mode(0).unwrap(), Mode::DryRun);
        assert_eq!(mode(2).unwrap(), Mode::Assume);
        assert_eq!(mode(3).unwrap_err().to_string(), "`mode`: `3` is no place mode");
        let rule =
            |rule, seed| tie_break(Some(&wire::TieBreak { rule, seed }), TieBreak::Lexicographic);
        assert_eq!(tie_break(None, TieBreak::Seeded(4)).unwrap(), TieBreak::Seeded(4));
        assert_eq!(rule(0, 7).unwrap(), TieBreak::Lexicographic);
        assert_eq!(rule(1, 7).unwrap(), TieBreak::Seeded(7));
        assert_eq!(rule(2, 7).unwrap(), TieBreak::Lexicographic);
        assert_eq!(
            rule(-1, 0).unwrap_err().to_string(),
            "`tie_break.rule`: `-1` is no tie-break rule"
        );
    }

    #[test]
    fn deletions_need_their_names() {
        let cluster = Cluster::new();
        let check = |change, expected: &str| {
            let (object, error) = delta(&cluster, wire::Delta { change }).unwrap_err();
            assert_eq!(format!("{object}: {error}"), expected);
        };
        use wire::delta::Change;
        check(None, "Delta: `change`: must be set");
        check(Some(Change::DeleteNode(String::new())), "Node: `delete_node`: must not be empty");
        check(
            Some(Change::DeletePod(wire::PodKey::default())),
            "Pod: `delete_pod.name`: must not be empty",
        );
        let object = |kind: &str, name: &str| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            Some(Change::DeleteObject(wire::ObjectKey { kind, name, ..Default::default() }))
        };
        check(object("CSINode", ""), "CSINode: `delete_object.name`: must not be empty");
        let (unknown, error) =
            delta(&cluster, wire::Delta { change: object("Pod", "p") }).unwrap_err();
        assert_eq!((unknown.as_str(), error.field.as_str()), ("Object", "delete_object.kind"));
        assert!(error.reason.starts_with("`Pod` is not one of `Namespace`, "), "{error}");
    }

    #[test]
    fn an_object_is_named_by_kind_and_key() {
        let cluster = Cluster::new();
        let claim = berth_proto::core_v1::PersistentVolumeClaim::default();
        let change = Some(wire::delta::Change::UpsertPersistentVolumeClaim(claim));
        let (object, error) = delta(&cluster, wire::Delta { change }).unwrap_err();
        assert_eq!((object.as_str(), error.field.as_str()), ("PersistentVolumeClaim", "metadata"));
        let key = wire::ObjectKey {
            kind: "Service".to_owned(),
            namespace: String::new(),
            name: "web".to_owned(),
        };
        let change = Some(wire::delta::Change::DeleteObject(key));
        let Ok(Delta::DeleteObject(key)) = delta(&cluster, wire::Delta { change }) else {
            panic!("a deletion is one");
        };
        assert_eq!(key.to_string(), "Service `default/web`");
    }
}
