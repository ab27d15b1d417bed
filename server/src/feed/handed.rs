//! Handed: what people hand in, in files or in the body of a request: pods and workloads in their order, and objects
//! beside them. The commands and the calls over HTTP share this code; each has its own way to suppose what exists beside
//! the pods.

mod members;
mod owners;

use std::collections::BTreeMap;

use berth_engine::workload::{
    ExpandOptions, Expansion, PodController, Workload, WorkloadKind, ephemeral_claims,
    has_ephemeral_claims,
};
use berth_proto::berth_v1::{BatchEntry, delta::Change};
use berth_proto::core_v1::{Container, Node, PersistentVolumeClaim, Pod};

pub(crate) use members::{Member, held_back, members, name_generated, ordered};
pub(crate) use owners::Owners;

use super::file::{Dump, Located, Location, Refused, WrittenObject};
use super::object_name;
use crate::words::count;

/// The objects of files or of a body.
#[derive(Default)]
pub(crate) struct Handed {
    /// Pods and workloads in their order.
    pub(crate) items: Vec<Item>,
    /// The other objects: a chart's Services and claims, for example.
    pub(crate) beside: Vec<Located<Beside>>,
}

/// A pod or a workload.
pub(crate) enum Item {
    /// A pod of the cluster, with whatever claims there are.
    Known(Box<Pod>),
    /// A pod as it was written.
    Pod(Box<Pod>),
    /// A workload that is to be expanded.
    Workload(Box<Located<Workload>>),
}

/// An object beside the pods.
pub(crate) enum Beside {
    /// A node.
    Node(Box<Node>),
    /// An object of another kind that placements depend on.
    Object(WrittenObject),
}

impl Beside {
    /// Kind of the object.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Beside::Node(_) => "Node",
            Beside::Object(object) => object.as_wire().kind().name(),
        }
    }

    /// The change that adds or replaces the object.
    pub(crate) fn into_change(self) -> Change {
        match self {
            Beside::Node(node) => Change::UpsertNode(*node),
            Beside::Object(object) => object.into_change(),
        }
    }
}

/// Pods that belong together: one pod, or its copies, or those of a workload.
pub(crate) struct Group {
    /// The pods in their order.
    pub(crate) pods: Vec<Pod>,
    /// The workload that the pods were made of, without its pods.
    pub(crate) workload: Option<Expansion>,
}

impl Handed {
    /// Adds the objects of one file, pods and workloads in file order.
    pub(crate) fn add(&mut self, dump: Dump) {
        let mut found: Vec<(Location, Item)> = Vec::new();
        for Located { value: mut pod, location } in dump.pods {
            contain(&mut pod);
            found.push((location, Item::Pod(Box::new(pod))));
        }
        let mut workloads = dump.workloads;
        for Located { value, location } in dump.objects {
            match value.into_workload() {
                Ok(value) => workloads.push(Located { value, location }),
                Err(other) => {
                    self.beside.push(Located { value: Beside::Object(other), location });
                }
            }
        }
        for workload in workloads {
            found.push((workload.location.clone(), Item::Workload(Box::new(workload))));
        }
        for Located { value, location } in dump.nodes {
            self.beside.push(Located { value: Beside::Node(Box::new(value)), location });
        }
        // Kinds are read apart.
        found.sort_by_key(|(at, _)| (at.document, at.item));
        self.items.extend(found.into_iter().map(|(_, item)| item));
    }
}

/// The remark on objects of a kind that placements do not depend on.
pub(crate) fn ignored_note(source: &str, kind: &str, n: usize) -> String {
    format!("{source}: {} of kind {kind}: placements do not depend on such", count(n, "object"))
}

/// The kinds of the objects beside the pods with their numbers, such as `2 Services, 1 StorageClass`.
pub(crate) fn kinds_of(beside: &[Located<Beside>]) -> String {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for object in beside {
        *counts.entry(object.value.kind()).or_default() += 1;
    }
    let kinds: Vec<String> = counts.iter().map(|(kind, n)| count(*n, kind)).collect();
    kinds.join(", ")
}

/// Pods and workloads, before the workloads are expanded.
#[derive(Default)]
pub(crate) struct Ungrouped {
    /// In order, a pod's group or the place of a workload's.
    slots: Vec<Option<Group>>,
    /// The workloads to expand, in order.
    pub(crate) workloads: Vec<Located<Workload>>,
    /// Claims of the generic ephemeral volumes of written pods.
    pub(crate) claims: Vec<WrittenObject>,
    /// Remarks on workloads that are not expanded.
    pub(crate) notes: Vec<String>,
}

impl Ungrouped {
    /// Number of pods and workloads together.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

/// Takes the workloads out of the items. The owners of other items are left out: what their controllers made is there.
/// A written pod with claims of its own is copied `replicas` times here, since copies do not share them.
pub(crate) fn ungrouped(items: Vec<Item>, replicas: u32) -> Ungrouped {
    let pods = items.iter().filter_map(|item| match item {
        Item::Known(pod) | Item::Pod(pod) => Some(&**pod),
        Item::Workload(_) => None,
    });
    let workloads = items.iter().filter_map(|item| match item {
        Item::Known(_) | Item::Pod(_) => None,
        Item::Workload(workload) => Some(&workload.value),
    });
    let owners = Owners::of(pods, workloads);
    let mut left = Ungrouped::default();
    for item in items {
        match item {
            Item::Known(pod) => left.slots.push(Some(Group { pods: vec![*pod], workload: None })),
            Item::Pod(pod) => {
                let pods = match has_ephemeral_claims(&pod) {
                    true => copies(&pod, replicas),
                    false => vec![*pod],
                };
                left.claims.extend(pods.iter().flat_map(ephemeral_claims).map(written_claim));
                left.slots.push(Some(Group { pods, workload: None }));
            }
            Item::Workload(workload) if owners.has(&workload.value) => {
                let name = workload.value.metadata().map_or("", |metadata| &metadata.name);
                let kind = workload.value.kind();
                left.notes
                    .push(format!("{kind} `{name}` is not expanded: what it owns is given too"));
            }
            Item::Workload(workload) => {
                left.slots.push(None);
                left.workloads.push(*workload);
            }
        }
    }
    left
}

/// Copies of a pod with the names and uids of pods that are admitted, so that their claims are known; their names end
/// with `-0`, `-1`, …, unless it is one.
fn copies(pod: &Pod, replicas: u32) -> Vec<Pod> {
    let copy = |index: u32| {
        let mut pod = pod.clone();
        let metadata = pod.metadata.get_or_insert_default();
        if replicas > 1 && !metadata.name.is_empty() {
            metadata.name = format!("{}-{index}", metadata.name);
            metadata.uid.clear();
        }
        identify(&mut pod);
        pod
    };
    (0..replicas.max(1)).map(copy).collect()
}

/// The claims of the generic ephemeral volumes of a written pod.
pub(crate) fn claims_of(mut pod: Pod) -> Vec<WrittenObject> {
    identify(&mut pod);
    ephemeral_claims(&pod).into_iter().map(written_claim).collect()
}

fn written_claim(claim: PersistentVolumeClaim) -> WrittenObject {
    WrittenObject::PersistentVolumeClaim(Box::new(claim))
}

/// The groups of all items, or their refusals; `expanded` has one result for each of the workloads.
pub(crate) fn grouped(
    slots: Ungrouped,
    expanded: Vec<Result<Expansion, Refused>>,
) -> Vec<Result<Group, Refused>> {
    let mut expanded = expanded.into_iter();
    let group = |slot: Option<Group>| match slot {
        Some(group) => Some(Ok(group)),
        None => expanded.next().map(|expansion| {
            expansion.map(|mut expansion| {
                let pods = std::mem::take(&mut expansion.pods);
                Group { pods, workload: Some(expansion) }
            })
        }),
    };
    slots.slots.into_iter().filter_map(group).collect()
}

/// Expanded workloads, and what exists beside their pods.
#[derive(Default)]
pub(crate) struct Expanded {
    /// The expansions in order; a workload that the API server would refuse is refused alone.
    pub(crate) expansions: Vec<Result<Expansion, Refused>>,
    /// The controllers of the pods.
    pub(crate) controllers: Vec<WrittenObject>,
    /// The claims of the pods; those that exist stay as they are.
    pub(crate) claims: Vec<WrittenObject>,
}

/// Expands workloads, and fills in what a cluster needs to hold their pods.
pub(crate) fn expand(workloads: Vec<Located<Workload>>, options: &ExpandOptions<'_>) -> Expanded {
    let mut all = Expanded::default();
    for Located { value, location } in workloads {
        let expansion = match value.expand(options) {
            Ok(mut expansion) => {
                expansion.pods.iter_mut().for_each(identify);
                all.controllers.extend(expansion.controller.take().map(written));
                let claims = std::mem::take(&mut expansion.claims);
                all.claims.extend(claims.into_iter().map(written_claim));
                let n_claims = all.claims.len();
                let ephemeral = expansion.pods.iter().flat_map(ephemeral_claims);
                all.claims.extend(ephemeral.map(written_claim));
                // Pods with claims of their own are not copies of one.
                expansion.are_alike &= all.claims.len() == n_claims;
                Ok(expansion)
            }
            Err(error) => {
                let object = object_name(value.kind().name(), value.metadata());
                Err(Refused { location, object, field: error.field, reason: error.reason })
            }
        };
        all.expansions.push(expansion);
    }
    all
}

fn written(controller: PodController) -> WrittenObject {
    match controller {
        PodController::ReplicationController(object) => {
            WrittenObject::ReplicationController(object)
        }
        PodController::ReplicaSet(object) => WrittenObject::ReplicaSet(object),
        PodController::StatefulSet(object) => WrittenObject::StatefulSet(object),
    }
}

/// The pod that stands for a group, and a remark if the group has more. `node` names the node whose pod of a DaemonSet
/// is meant.
///
/// # Errors
/// The reason if the group is a workload without pods.
pub(crate) fn representative(
    group: Group,
    node: Option<&str>,
) -> Result<(Pod, Option<Expansion>, Option<String>), String> {
    let Group { pods, workload } = group;
    let n_pods = pods.len();
    let position = node.and_then(|node| pods.iter().position(|pod| is_daemon_of(pod, node)));
    let name = workload.as_ref().map(workload_name).unwrap_or_default();
    let Some(pod) = pods.into_iter().nth(position.unwrap_or(0)) else {
        return Err(format!("{name} makes no pods"));
    };
    let note = workload.as_ref().filter(|_| n_pods > 1).map(|workload| {
        let which = match (workload.kind, position) {
            (WorkloadKind::DaemonSet, Some(_)) => "the one of this node",
            _ => "the first",
        };
        let n_pods = count(n_pods, "pod");
        format!("{name} makes {n_pods}; this is about {which}, as if it were alone")
    });
    Ok((pod, workload, note))
}

/// Checks that copies of one pod stand for more pods of its workload, or for more pods like it. `place` is how to ask for a placement of the
/// workload, and `replicas` for one of so many pods.
///
/// # Errors
/// The reason why they do not.
pub(crate) fn check_copies(
    workload: Option<&Expansion>,
    pod: &Pod,
    [place, replicas]: [&str; 2],
) -> Result<(), String> {
    let own_claims = format!(
        "has claims for each pod, which copies of one pod would share; `{replicas}` shows whether N fit"
    );
    if has_ephemeral_claims(pod) {
        let name = workload.map_or_else(|| format!("Pod `{}`", name_of(pod)), workload_name);
        return Err(format!("{name} {own_claims}"));
    }
    let Some(workload) = workload else { return Ok(()) };
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    let mut sources = volumes.filter_map(|volume| volume.volume_source.as_ref());
    let reason = match workload.kind {
        WorkloadKind::DaemonSet => {
            format!("has one pod on each node that suits it; `{place}` shows on which they fit")
        }
        WorkloadKind::StatefulSet
            if sources.any(|source| source.persistent_volume_claim.is_some()) =>
        {
            own_claims
        }
        _ => return Ok(()),
    };
    Err(format!("{} {reason}", workload_name(workload)))
}

/// Reason why a workload's pods cannot be assumed.
pub(crate) fn not_assumed(kind: WorkloadKind, option: &str) -> String {
    format!(
        "`{option}` takes pods, not a {kind}: the names of its pods are not known before they are created"
    )
}

/// Name of a workload in messages, such as ``Deployment `shop/web` ``.
pub(crate) fn workload_name(expansion: &Expansion) -> String {
    let Expansion { kind, namespace, name, .. } = expansion;
    format!("{kind} `{namespace}/{name}`")
}

/// Whether the pod's required node affinity names this node, as that of a DaemonSet's pod does.
fn is_daemon_of(pod: &Pod, node: &str) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.into_iter().flat_map(|required| &required.node_selector_terms);
    let mut fields = terms.flat_map(|term| &term.match_fields);
    fields.any(|field| field.key == "metadata.name" && field.values == [node])
}

/// Returns the pod's name with its namespace: `namespace/name`. A name that is still to be generated is its prefix.
pub(crate) fn name_of(pod: &Pod) -> String {
    let Some(metadata) = &pod.metadata else { return "default/".to_owned() };
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    let name = if metadata.name.is_empty() { &metadata.generate_name } else { &metadata.name };
    format!("{namespace}/{name}")
}

/// [`name_of`] the pod of an entry.
pub(crate) fn name_of_entry(entry: &BatchEntry) -> String {
    let pod = entry.pod.as_ref().and_then(|pod| pod.to_pod().ok());
    pod.as_ref().map(name_of).unwrap_or_default()
}

/// Gives a pod without containers, which only a lenient reader lets through, one that asks for nothing: admission would
/// refuse it (A-VAL-1).
pub(crate) fn contain(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    if spec.containers.is_empty() {
        spec.containers.push(Container { name: "none".to_owned(), ..Container::default() });
    }
}

/// Fills in what the cluster needs to hold a pod that somebody wrote: the namespace `default`, a uid (A-NAME-1,
/// A-NAME-3), and the action of spread constraints (A-DEF-12). Everything else is left to admission.
pub(crate) fn identify(pod: &mut Pod) {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
    if metadata.uid.is_empty() {
        metadata.uid = format!("{}/{}", metadata.namespace, metadata.name);
    }
    let constraints =
        pod.spec.iter_mut().flat_map(|spec| spec.topology_spread_constraints.iter_mut());
    for constraint in constraints.filter(|constraint| constraint.when_unsatisfiable.is_empty()) {
        "DoNotSchedule".clone_into(&mut constraint.when_unsatisfiable);
    }
}
