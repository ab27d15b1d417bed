//! VolumeBinding: bound claims need a node that reaches their volumes; for the others a volume must be found or
//! provisioned. Rules: S-VLB-1 to S-VLB-9.

use std::collections::BTreeSet;

use berth_engine::StatusCode;
use berth_proto::core_v1::{PersistentVolume, PersistentVolumeClaim, Pod, TopologySelectorTerm};
use berth_proto::storage_v1::{CsiStorageCapacity, StorageClass};
use berth_proto::{Quantity, core_v1, meta_v1};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::{Failure, Rejection};
use super::label_selector::{self, Selector};
use super::names::{is_label_key, is_label_value};
use super::node_selector::selects_by_labels;
use super::objects;
use super::pod;
use super::quantity::{Nanos, nanos, units};

/// The volumes that would be bound and provisioned with the pod on one node, by claim name (S-VLB-9).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bindings {
    pub(crate) bound: Vec<(String, String)>,
    pub(crate) provisioned: Vec<String>,
}

/// Why PreFilter stops.
pub(crate) enum Stop {
    Refused(String),
    Failed,
}

/// S-VLB-1 to S-VLB-3
pub(crate) fn pre_filter(cluster: &NaiveCluster, of: &Pod) -> Result<(), Stop> {
    let namespace = pod::namespace(of);
    for (name, is_ephemeral) in pod::claims(of) {
        let Some(claim) = cluster.objects.claim(namespace, &name) else {
            let what = format!("persistentvolumeclaim \"{name}\"");
            return Err(Stop::Refused(match is_ephemeral {
                true => format!("waiting for ephemeral volume controller to create the {what}"),
                false => format!("{what} not found"),
            }));
        };
        let volume = &spec(claim).volume_name;
        if claim.status.as_ref().is_some_and(|status| status.phase == "Lost") {
            return Err(Stop::Refused(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            )));
        }
        if metadata(claim).deletion_timestamp.is_some() {
            return Err(Stop::Refused(format!(
                "persistentvolumeclaim \"{name}\" is being deleted"
            )));
        }
        if is_ephemeral && !is_owned(claim, of) {
            return Err(Stop::Refused(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                pod::name(of)
            )));
        }
    }
    let claims = classified(cluster, of).map_err(|Failure| Stop::Failed)?;
    if claims.iter().any(|(_, kind)| *kind == Kind::Immediate) {
        return Err(Stop::Refused("pod has unbound immediate PersistentVolumeClaims".to_owned()));
    }
    Ok(())
}

#[derive(Copy, Clone, PartialEq)]
enum Kind {
    Bound,
    Delayed,
    Immediate,
}

/// S-VLB-2
fn classified<'a>(
    cluster: &'a NaiveCluster,
    of: &Pod,
) -> Result<Vec<(&'a PersistentVolumeClaim, Kind)>, Failure> {
    let mut found = Vec::new();
    for (name, _) in pod::claims(of) {
        let Some(claim) = cluster.objects.claim(pod::namespace(of), &name) else {
            continue;
        };
        let is_named = !spec(claim).volume_name.is_empty();
        let is_completed =
            metadata(claim).annotations.contains_key("pv.kubernetes.io/bind-completed");
        let kind = if is_named && is_completed {
            Kind::Bound
        } else {
            match cluster.objects.class(&class_name(claim)) {
                None => Kind::Immediate,
                Some(StorageClass { volume_binding_mode: None, .. }) => return Err(Failure),
                Some(StorageClass { volume_binding_mode: Some(mode), .. })
                    if mode == "WaitForFirstConsumer" && !is_named =>
                {
                    Kind::Delayed
                }
                Some(_) => Kind::Immediate,
            }
        };
        found.push((claim, kind));
    }
    Ok(found)
}

/// S-VLB-4 to S-VLB-8
pub(crate) fn filter(
    cluster: &NaiveCluster,
    of: &Pod,
    node: &NaiveNode,
) -> Result<Result<Bindings, Rejection>, Failure> {
    let claims = classified(cluster, of)?;
    let of_kind = |wanted: Kind| claims.iter().filter(move |(_, kind)| *kind == wanted);
    let mut reasons = Vec::new();
    let bound_problem = of_kind(Kind::Bound).find_map(|(claim, _)| {
        match cluster.objects.volume(&spec(claim).volume_name) {
            None => Some(Missing::Volume),
            Some(volume) if !is_reachable(volume, node) => Some(Missing::Affinity),
            Some(_) => None,
        }
    });
    if bound_problem == Some(Missing::Affinity) {
        reasons.push("node(s) didn't match PersistentVolume's node affinity");
    }
    let delayed: Vec<&PersistentVolumeClaim> = of_kind(Kind::Delayed).map(|(c, _)| *c).collect();
    let bindings = match unbound(cluster, &delayed, node)? {
        Ok(bindings) => bindings,
        Err(reason) => {
            reasons.push(reason);
            Bindings::default()
        }
    };
    if bound_problem == Some(Missing::Volume) {
        reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
    }
    if reasons.is_empty() {
        return Ok(Ok(bindings));
    }
    let code = StatusCode::UnschedulableAndUnresolvable;
    Ok(Err(Rejection { code, reasons: reasons.into_iter().map(str::to_owned).collect() }))
}

#[derive(PartialEq)]
enum Missing {
    Volume,
    Affinity,
}

const NONE_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const NO_STORAGE: &str = "node(s) did not have enough free storage";

/// S-VLB-5
fn unbound(
    cluster: &NaiveCluster,
    delayed: &[&PersistentVolumeClaim],
    node: &NaiveNode,
) -> Result<Result<Bindings, &'static str>, Failure> {
    let selected = |claim: &PersistentVolumeClaim| {
        metadata(claim).annotations.get("volume.kubernetes.io/selected-node").cloned()
    };
    if delayed.iter().any(|claim| selected(claim).is_some_and(|at| at != node.name())) {
        return Ok(Err(NONE_TO_BIND));
    }
    let (mut to_provision, mut to_match): (Vec<_>, Vec<_>) =
        delayed.iter().copied().partition(|claim| selected(claim).is_some());
    to_match.sort_by_key(|claim| requested(claim).unwrap_or(0));
    let (mut chosen, mut bindings) = (BTreeSet::new(), Bindings::default());
    for claim in to_match {
        match matching_volume(cluster, claim, &chosen, node) {
            Err(Failure) => return Err(Failure),
            Ok(None) => to_provision.push(claim),
            Ok(Some(volume)) => {
                chosen.insert(volume.clone());
                bindings.bound.push((metadata(claim).name.clone(), volume));
            }
        }
    }
    for claim in to_provision {
        let Some(class) = cluster.objects.class(&class_name(claim)) else {
            return Err(Failure);
        };
        if let Err(reason) = can_provision(cluster, claim, class, node) {
            return Ok(Err(reason));
        }
        bindings.provisioned.push(metadata(claim).name.clone());
    }
    bindings.bound.sort_by(|(a, _), (b, _)| a.cmp(b));
    bindings.provisioned.sort();
    Ok(Ok(bindings))
}

/// S-VLB-6
fn matching_volume(
    cluster: &NaiveCluster,
    claim: &PersistentVolumeClaim,
    chosen: &BTreeSet<String>,
    node: &NaiveNode,
) -> Result<Option<String>, Failure> {
    let wanted = spec(claim);
    let selector = match &wanted.selector {
        None => Selector::All(Vec::new()),
        Some(selector) => label_selector::parse(Some(selector)).map_err(|_| Failure)?,
    };
    let or_filesystem = |mode: &Option<String>| mode.clone().unwrap_or("Filesystem".to_owned());
    let mut smallest: Option<(Nanos, String)> = None;
    for volume in cluster.objects.volumes() {
        let (of_volume, offered) =
            (volume.metadata.clone().unwrap_or_default(), volume.spec.clone().unwrap_or_default());
        let is_bound_to_claim = offered.claim_ref.as_ref().map(|to| is_reference_to(to, claim));
        let capacity = offered.capacity.get("storage").map_or(0, nanos);
        if volume_class(volume) != class_name(claim)
            || chosen.contains(&of_volume.name)
            || is_bound_to_claim == Some(false)
            || capacity < requested(claim).unwrap_or(0)
            || or_filesystem(&offered.volume_mode) != or_filesystem(&wanted.volume_mode)
            || offered.volume_attributes_class_name.clone().unwrap_or_default()
                != wanted.volume_attributes_class_name.clone().unwrap_or_default()
            || of_volume.deletion_timestamp.is_some()
        {
            continue;
        }
        if is_bound_to_claim == Some(true) {
            return Ok(is_reachable(volume, node).then_some(of_volume.name));
        }
        if volume.status.as_ref().is_some_and(|status| status.phase == "Available")
            && selector.matches(&of_volume.labels)
            && is_reachable(volume, node)
            && wanted.access_modes.iter().all(|mode| offered.access_modes.contains(mode))
            && smallest.as_ref().is_none_or(|(known, _)| capacity < *known)
        {
            smallest = Some((capacity, of_volume.name));
        }
    }
    Ok(smallest.map(|(_, name)| name))
}

fn is_reference_to(reference: &core_v1::ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    let metadata = metadata(claim);
    reference.name == metadata.name
        && reference.namespace == objects::namespace(metadata)
        && (reference.uid.is_empty() || reference.uid == metadata.uid)
}

/// S-VLB-7
fn can_provision(
    cluster: &NaiveCluster,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &NaiveNode,
) -> Result<(), &'static str> {
    let provisioner = class.provisioner.as_str();
    let has_provisioner = !provisioner.is_empty() && provisioner != "kubernetes.io/no-provisioner";
    let topologies = &class.allowed_topologies;
    if !has_provisioner
        || !(topologies.is_empty() || topologies.iter().any(|term| is_allowed(term, node)))
    {
        return Err(NONE_TO_BIND);
    }
    let driver = cluster.objects.csi_driver(provisioner).and_then(|driver| driver.spec.as_ref());
    let counts_capacity = driver.is_some_and(|driver| driver.storage_capacity == Some(true));
    let Some(size) = spec(claim).resources.and_then(|r| r.requests.get("storage").cloned()) else {
        return Ok(());
    };
    let name = class.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let is_enough = |capacity: &CsiStorageCapacity| {
        let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let has_access = label_selector::parse(capacity.node_topology.as_ref())
            .is_ok_and(|topology| topology.matches(node.labels()));
        capacity.storage_class_name == name
            && has_access
            && limit.is_some_and(|limit| bytes(limit) >= bytes(&size))
    };
    if !counts_capacity || cluster.objects.capacities().any(is_enough) {
        Ok(())
    } else {
        Err(NO_STORAGE)
    }
}

/// Whether a term allows the node. Expressions are AND-ed; a term without any, or with an invalid one, matches nothing.
fn is_allowed(term: &TopologySelectorTerm, node: &NaiveNode) -> bool {
    let holds = |expression: &core_v1::TopologySelectorLabelRequirement| {
        let is_legal = is_label_key(&expression.key)
            && expression.values.iter().all(|value| is_label_value(value));
        let value = node.labels().get(&expression.key);
        is_legal && value.is_some_and(|value| expression.values.contains(value))
    };
    !term.match_label_expressions.is_empty() && term.match_label_expressions.iter().all(holds)
}

fn bytes(quantity: &Quantity) -> i64 {
    units("storage", nanos(quantity))
}

/// Whether the node reaches the volume; a volume without node affinity is reachable everywhere (S-VLB-4).
fn is_reachable(volume: &PersistentVolume, node: &NaiveNode) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| selects_by_labels(required, &node.node))
}

fn requested(claim: &PersistentVolumeClaim) -> Option<Nanos> {
    spec(claim).resources?.requests.get("storage").map(nanos)
}

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// S-VLB-2
pub(crate) fn class_name(claim: &PersistentVolumeClaim) -> String {
    let annotated = metadata(claim).annotations.get(CLASS).cloned();
    annotated.or(spec(claim).storage_class_name).unwrap_or_default()
}

fn volume_class(volume: &PersistentVolume) -> String {
    let annotated = volume.metadata.as_ref().and_then(|m| m.annotations.get(CLASS)).cloned();
    let of_spec = || volume.spec.as_ref().map(|spec| spec.storage_class_name.clone());
    annotated.or_else(of_spec).unwrap_or_default()
}

/// Whether the pod is the claim's controller (S-VLB-1).
pub(crate) fn is_owned(claim: &PersistentVolumeClaim, by: &Pod) -> bool {
    let uid = by.metadata.as_ref().map_or("", |metadata| &metadata.uid);
    let owners = &metadata(claim).owner_references;
    owners.iter().find(|owner| owner.controller == Some(true)).is_some_and(|owner| owner.uid == uid)
}

fn metadata(claim: &PersistentVolumeClaim) -> &meta_v1::ObjectMeta {
    claim.metadata.as_ref().expect("objects have metadata")
}

fn spec(claim: &PersistentVolumeClaim) -> core_v1::PersistentVolumeClaimSpec {
    claim.spec.clone().unwrap_or_default()
}
