//! Expanded bodies: the pods that a call is about, made of the pods and workloads of a body. What exists beside the pods
//! (their controllers and claims, a chart's Services) is supposed on a private fork, on which the call decides.

use std::sync::Arc;

use berth_engine::Cluster;
use berth_engine::workload::{DaemonNode, ExpandOptions, Expansion, Workload};
use berth_proto::berth_v1 as wire;
use berth_proto::core_v1::{Node, Pod};
use prost::Message as _;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::objects::{
    BODY, POD, Slot, not_taken, put_node, refused_text, slots, takes_replicas, unwritable,
};
use super::parameters::{Parameters, REPLICAS, properties};
use super::route::{EXPLAIN, HEADROOM, PLACE, PLACE_BATCH, Route, SCALE_UP, find};
use super::told::Told;
use crate::feed::file::{Dump, Located, Refused, WrittenObject};
use crate::feed::handed::{
    self, Beside, Expanded, Group, Handed, Member, Ungrouped, check_copies, ignored_note, kinds_of,
    not_assumed, representative,
};
use crate::service::{CallError, Fork, Target, admission, cluster::delta};

/// What the translation of a body takes from the server.
pub(super) struct Scene<'a> {
    /// The cluster of a request in the session of this id; empty for the live cluster.
    pub(super) base: &'a dyn Fn(&str) -> Result<Target, CallError>,
    /// Maximum number of pods of one request.
    pub(super) max_pods: usize,
    /// Maximum number of bytes that the pods of workloads may have.
    pub(super) max_bytes: usize,
}

/// A request that was made of pods and workloads.
pub(super) struct Made {
    pub(super) route: &'static Route,
    pub(super) request: Map<String, Value>,
    pub(super) told: Told,
    /// The fork with what the request supposes, if it supposes anything.
    pub(super) fork: Option<Fork>,
}

/// Makes the request of a call that takes workloads.
///
/// # Errors
/// A workload that the API server would refuse, too many pods, an object that cannot be supposed, a workload where names
/// have to be known, several pods where the call takes one; a bad parameter.
pub(super) fn make(
    route: &'static Route,
    mut dump: Dump,
    parameters: &Parameters,
    scene: &Scene<'_>,
) -> Result<Made, Failure> {
    let ignored = std::mem::take(&mut dump.ignored_kinds);
    let mut notes: Vec<String> = dump.warnings.lines().collect();
    notes.extend(ignored.iter().map(|(kind, n)| ignored_note("the body", kind, *n)));
    let mut handed = Handed::default();
    handed.add(dump);
    let Handed { items, beside } = handed;
    let (templates, beside) = templates(route, beside);
    if items.is_empty() {
        if !templates.is_empty() {
            let reason = "the body holds no Pod, and no workload such as a Deployment";
            return Err(Failure::invalid(reason));
        }
        let kind = beside.first().map(|object| object.value.kind());
        let kind = kind.or_else(|| ignored.keys().next().map(String::as_str));
        return Err(kind.map_or_else(
            || Failure::invalid("the body holds no Kubernetes object"),
            |kind| not_taken(route, kind),
        ));
    }
    let (replicas, parameters) =
        if takes_replicas(route) { parameters.replicas()? } else { (None, parameters.clone()) };
    let mut ungrouped = handed::ungrouped(items, replicas.unwrap_or(1));
    let workloads = std::mem::take(&mut ungrouped.workloads);
    let mut claims = std::mem::take(&mut ungrouped.claims);
    let is_batch = ungrouped.len() > 1 || !workloads.is_empty() || replicas.is_some();
    let route = match find(PLACE_BATCH) {
        Some(batch) if route.path == PLACE && is_batch => batch,
        _ => route,
    };
    let mut request = Map::new();
    parameters.set(&mut request, route.operation.request)?;
    templates.iter().try_for_each(|node| put_node(&mut request, route, node))?;
    let keeps = keeps(&request);
    if let (Some((field, option)), Some(workload)) = (keeps, workloads.first()) {
        return Err(Failure::field(field, not_assumed(workload.value.kind(), option)));
    }
    let beside = match keeps {
        _ if beside.is_empty() => beside,
        Some((_, option)) => {
            let kinds = kinds_of(&beside);
            notes.push(format!(
                "{kinds} of the body not supposed: `{option}` takes the cluster as it is"
            ));
            Vec::new()
        }
        None => {
            notes.push(format!("{} of the body supposed to exist", kinds_of(&beside)));
            beside
        }
    };
    notes.append(&mut ungrouped.notes);
    if keeps.is_some() {
        // The cluster is taken as it is, and has no claims of pods that are not created yet.
        claims.clear();
    }
    let (expansions, fork) = match workloads.is_empty() && beside.is_empty() && claims.is_empty() {
        true => (Vec::new(), None),
        false => {
            let session_id = request.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            let base = (scene.base)(session_id)?;
            let mut supposing = Supposing { cluster: base.fork(), digest: Vec::new() };
            supposing.add_beside(beside)?;
            let expansions = supposing.expand(workloads, claims, replicas, scene)?;
            (expansions, Some(supposing.into_fork()))
        }
    };
    let groups = grouped(ungrouped, expansions, &mut notes)?;
    let mut made = Made { route, request, told: Told { notes, ..Told::default() }, fork };
    made.fill(groups, replicas)?;
    Ok(made)
}

/// The groups of pods; adds the remarks of their workloads to `notes`.
fn grouped(
    ungrouped: Ungrouped,
    expansions: Vec<Result<Expansion, Refused>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Group>, Failure> {
    let mut groups = Vec::new();
    for group in handed::grouped(ungrouped, expansions) {
        let mut group = group.map_err(|refused| {
            Failure::field(&refused.field, refused_text(&refused.to_string(), &refused.field))
        })?;
        if let Some(workload) = &mut group.workload {
            notes.append(&mut workload.notes);
        }
        groups.push(group);
    }
    Ok(groups)
}

/// The nodes that are templates of groups for the call, and the other objects.
fn templates(route: &Route, beside: Vec<Located<Beside>>) -> (Vec<Node>, Vec<Located<Beside>>) {
    let (mut templates, mut others) = (Vec::new(), Vec::new());
    for Located { value, location } in beside {
        match value {
            Beside::Node(node) if route.path == SCALE_UP => templates.push(*node),
            value => others.push(Located { value, location }),
        }
    }
    (templates, others)
}

/// The option of a request by which the server keeps what it decides, with its field: nothing can be supposed then.
fn keeps(request: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    if request.get("mode").is_some_and(|mode| mode == "PLACE_MODE_ASSUME") {
        return Some(("mode", "mode=assume"));
    }
    let nominates = request.get("nominate").is_some_and(|nominate| *nominate == true);
    nominates.then_some(("nominate", "nominate"))
}

impl Made {
    /// Puts the pods into their place in the request.
    fn fill(&mut self, groups: Vec<Group>, replicas: Option<u32>) -> Result<(), Failure> {
        let fields = properties(self.route.operation.request);
        let mut slots = slots(&fields, self.route, POD);
        match slots.pop() {
            Some(Slot::One(field)) => self.fill_one(&field, groups),
            Some(Slot::Held(list, field)) => {
                self.told.ordered = handed::ordered(&groups);
                let (entries, members) = handed::members(groups, replicas.unwrap_or(1));
                self.told.members = members.into();
                let entry = |entry: wire::BatchEntry| {
                    let pod = entry.pod.map(|pod| serde_json::to_value(pod).map_err(unwritable));
                    let mut value = json!({field: pod.transpose()?});
                    if entry.replicas > 1 {
                        value["replicas"] = entry.replicas.into();
                    }
                    Ok(value)
                };
                let entries: Result<Vec<Value>, Failure> = entries.into_iter().map(entry).collect();
                self.request.insert(list, entries?.into());
                Ok(())
            }
            Some(Slot::Many(_) | Slot::Names(_) | Slot::Groups(_)) | None => {
                Err(not_taken(self.route, "Pod"))
            }
        }
    }

    fn fill_one(&mut self, field: &str, mut groups: Vec<Group>) -> Result<(), Failure> {
        let path = &self.route.path;
        let Some(group) = groups.pop().filter(|_| groups.is_empty()) else {
            return Err(Failure::invalid(format!(
                "`kind`: `{path}` takes one `Pod`, and the body holds several"
            )));
        };
        let nodes = self.request.get("nodeNames").filter(|_| *path == EXPLAIN);
        let node = match nodes.and_then(Value::as_array).map(Vec::as_slice) {
            Some([node]) => node.as_str(),
            _ => None,
        };
        let (pod, workload, note) = representative(group, node).map_err(|reason| {
            let lines = [reason.as_str()].into_iter();
            let lines = lines.chain(self.told.notes.iter().map(String::as_str));
            Failure::invalid(lines.collect::<Vec<_>>().join("; "))
        })?;
        if *path == HEADROOM {
            check_copies(workload.as_ref(), &pod, ["/v1/place", "/v1/place?replicas=N"])
                .map_err(Failure::invalid)?;
        }
        if workload.is_some() {
            self.told.members = [Member { name: handed::name_of(&pod), workload: Some(0) }].into();
        }
        self.told.notes.extend(note);
        self.request.insert(field.to_owned(), value_of(&pod)?);
        Ok(())
    }
}

fn value_of(pod: &Pod) -> Result<Value, Failure> {
    serde_json::to_value(pod).map_err(unwritable)
}

/// A fork while objects are added to it.
struct Supposing {
    cluster: Cluster,
    digest: Vec<u8>,
}

impl Supposing {
    /// Adds the objects of the body.
    fn add_beside(&mut self, beside: Vec<Located<Beside>>) -> Result<(), Failure> {
        let (mut changes, mut locations) = (Vec::new(), Vec::new());
        for Located { value, location } in beside {
            locations.push(location.to_string());
            changes.push(value.into_change());
        }
        let deltas = self.deltas(changes);
        let compiled = delta::compile(&self.cluster, deltas);
        let outcome = delta::apply_compiled(&self.cluster, compiled);
        check(outcome.rejections, |index| locations.get(index).map_or(BODY, String::as_str))
    }

    /// Expands workloads, and adds the controllers of their pods and those claims of theirs and of other pods that do not
    /// exist.
    fn expand(
        &mut self,
        workloads: Vec<Located<Workload>>,
        claims: Vec<WrittenObject>,
        replicas: Option<u32>,
        scene: &Scene<'_>,
    ) -> Result<Vec<Result<Expansion, Refused>>, Failure> {
        let is_daemon =
            |workload: &Located<Workload>| matches!(workload.value, Workload::DaemonSet(_));
        let nodes: Vec<DaemonNode> = match workloads.iter().any(is_daemon) {
            true => self.cluster.snapshot().nodes().iter().map(DaemonNode::from).collect(),
            false => Vec::new(),
        };
        let options = ExpandOptions { replicas, nodes: &nodes };
        check_size(&workloads, &options, scene)?;
        let mut expanded = handed::expand(workloads, &options);
        expanded.claims.extend(claims);
        let Expanded { expansions, controllers, claims } = expanded;
        let changes = |objects: Vec<WrittenObject>| {
            objects.into_iter().map(WrittenObject::into_change).collect::<Vec<_>>()
        };
        let deltas = self.deltas(changes(controllers));
        let compiled = delta::compile(&self.cluster, deltas);
        check(delta::apply_compiled(&self.cluster, compiled).rejections, |_| BODY)?;
        let mut deltas = self.deltas(changes(claims));
        let admitted = admission::admit_changes(&self.cluster.snapshot(), &mut deltas);
        if let Some((_, (object, error))) = admitted.refused.into_iter().next() {
            return Err(Failure::field(
                &error.field,
                format!("{BODY}: {object}: {}", error.reason),
            ));
        }
        let compiled = delta::compile(&self.cluster, deltas);
        check(delta::apply_missing(&self.cluster, compiled).0.rejections, |_| BODY)?;
        Ok(expansions)
    }

    /// The changes as deltas, which are a part of the digest.
    fn deltas(&mut self, changes: Vec<wire::delta::Change>) -> Vec<wire::Delta> {
        let delta = |change| wire::Delta { change: Some(change) };
        let deltas: Vec<wire::Delta> = changes.into_iter().map(delta).collect();
        for delta in &deltas {
            self.digest.extend(delta.encode_length_delimited_to_vec());
        }
        deltas
    }

    fn into_fork(self) -> Fork {
        Fork { cluster: Arc::new(self.cluster), digest: self.digest.into() }
    }
}

/// Checks the number and the size of the pods before they are made.
fn check_size(
    workloads: &[Located<Workload>],
    options: &ExpandOptions<'_>,
    scene: &Scene<'_>,
) -> Result<(), Failure> {
    let (mut n_pods, mut n_bytes) = (0_u64, 0_u64);
    for workload in workloads {
        let n = workload.value.n_pods_at_most(options);
        n_pods = n_pods.saturating_add(n);
        n_bytes = n_bytes.saturating_add(n.saturating_mul(workload.value.n_bytes() as u64));
    }
    let field = if options.replicas.is_some() { REPLICAS } else { "spec.replicas" };
    if n_pods > scene.max_pods as u64 {
        let reason = format!("asks for {n_pods} pods, more than the limit of {}", scene.max_pods);
        return Err(Failure::field(field, reason));
    }
    if n_bytes > scene.max_bytes as u64 {
        let limit = scene.max_bytes;
        let reason = format!("{n_pods} pods of this size are more than the limit of {limit} bytes");
        return Err(Failure::field(field, reason));
    }
    Ok(())
}

/// The first rejection as a failure; `source` is where the object at an index is from.
fn check<'a>(
    rejections: Vec<wire::Rejection>,
    source: impl Fn(usize) -> &'a str,
) -> Result<(), Failure> {
    let Some(wire::Rejection { index, field, reason, object }) = rejections.into_iter().next()
    else {
        return Ok(());
    };
    let source = source(usize::try_from(index).unwrap_or(usize::MAX));
    Err(Failure::field(field, format!("{source}: {object}: {reason}")))
}
