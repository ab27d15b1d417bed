//! Pending pods by cause: each is decided as a dry run, and pods with one cause are one group. Equal pods are decided
//! once. A server and the command line share this code.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use berth_engine::{
    self as engine, Cluster, CountedReason, Outcome, PlaceRequest, Plugin, Pod, Policy, TieBreak,
};
use berth_proto::berth_v1::{self as wire, ListPendingRequest, ListPendingResponse};
use berth_proto::core_v1;
use berth_proto::meta_v1::ObjectMeta;
use prost::Message as _;

use crate::clock;
use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::convert::{self, saturate};

/// Limits of a request: the number of pods and of groups where it has none, and their maxima.
const DEFAULT_PODS: usize = 1_000;
const MAX_PODS: usize = 10_000;
const DEFAULT_GROUPS: usize = 100;
const MAX_GROUPS: usize = 1_000;
/// Maximum number of workloads in a group.
const MAX_WORKLOADS: usize = 20;

/// A pending pod.
struct Waiting {
    pod: Pod,
    object: core_v1::Pod,
}

/// Why a pod waits; pods that agree in it are one group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Cause {
    text: String,
    plugin: &'static str,
}

/// A cause, with the figures of one pod.
#[derive(Clone, Debug)]
struct Found {
    cause: Cause,
    reasons: Vec<CountedReason>,
    n_nodes: usize,
    /// Whether a change of the pod or the cluster may be tried.
    is_refused: bool,
}

/// A group while it is collected: the positions of its pods, and the figures of the first.
struct Group {
    found: Found,
    pods: Vec<usize>,
}

/// Lists the pods that wait for a node by cause.
///
/// # Errors
/// [`CallError::DeadlineExceeded`] as soon as `cancelled` returns true.
pub(crate) fn list(
    cluster: &Cluster,
    profiles: &Profiles,
    tie_break: TieBreak,
    request: &ListPendingRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<ListPendingResponse, CallError> {
    let (waiting, generation) = waiting(cluster, &request.namespace);
    let n_pods = waiting.len();
    let n_decided = limit(request.max_pods, DEFAULT_PODS, MAX_PODS).min(n_pods);
    let mut groups: Vec<Group> = Vec::new();
    let mut by_cause: HashMap<Cause, usize> = HashMap::new();
    let mut by_content: HashMap<Vec<u8>, usize> = HashMap::new();
    let asker = Asker { cluster, profiles, tie_break, cancelled };
    for (position, one) in waiting.iter().take(n_decided).enumerate() {
        check(cancelled)?;
        let content = content(&one.object);
        let group = match by_content.get(&content) {
            Some(group) => *group,
            None => {
                let found = asker.cause_of(one)?;
                let group = *by_cause.entry(found.cause.clone()).or_insert(groups.len());
                if group == groups.len() {
                    groups.push(Group { found, pods: Vec::new() });
                }
                by_content.insert(content, group);
                group
            }
        };
        if let Some(group) = groups.get_mut(group) {
            group.pods.push(position);
        }
    }
    groups.sort_by(|a, b| {
        let key = |group: &Group| Reverse(group.pods.len());
        key(a).cmp(&key(b)).then_with(|| a.found.cause.text.cmp(&b.found.cause.text))
    });
    let n_groups = groups.len();
    groups.truncate(limit(request.max_groups, DEFAULT_GROUPS, MAX_GROUPS));
    let group = |group| asker.to_wire(group, &waiting, !request.without_remedies);
    Ok(ListPendingResponse {
        groups: groups.into_iter().map(group).collect::<Result<_, _>>()?,
        n_pods: saturate(n_pods),
        n_groups: saturate(n_groups),
        n_not_decided: saturate(n_pods - n_decided),
        generation,
    })
}

fn limit(requested: u32, default: usize, max: usize) -> usize {
    match usize::try_from(requested).unwrap_or(max) {
        0 => default,
        requested => requested.min(max),
    }
}

fn check(cancelled: &dyn Fn() -> bool) -> Result<(), CallError> {
    if cancelled() { Err(CallError::DeadlineExceeded) } else { Ok(()) }
}

/// The pods that wait for a node, in queue order: highest priority first, then oldest, then by name (S-Q-4).
fn waiting(cluster: &Cluster, namespace: &str) -> (Vec<Waiting>, u64) {
    let listing = cluster.pod_listing(|pod, _| {
        pod.node_name().is_none()
            && !pod.is_terminating()
            && (namespace.is_empty() || *pod.key().namespace == *namespace)
    });
    let reported = |(pod, _): (Pod, bool)| {
        let object = pod.reported()?;
        Some(Waiting { pod, object })
    };
    let mut waiting: Vec<Waiting> = listing.pods.into_iter().filter_map(reported).collect();
    waiting.sort_by_cached_key(|one| {
        let created = one.object.metadata.as_ref().and_then(|metadata| metadata.creation_timestamp);
        let created = created.and_then(|time| time.unix_seconds()).unwrap_or(i64::MAX);
        (Reverse(one.pod.priority()), created, one.pod.key().clone())
    });
    (waiting, listing.generation.get())
}

/// What a decision about the pod may depend on: two pods of equal content have one cause.
fn content(pod: &core_v1::Pod) -> Vec<u8> {
    let mut content = core_v1::Pod { spec: pod.spec.clone(), ..core_v1::Pod::default() };
    let metadata = content.metadata.get_or_insert_default();
    if let Some(given) = &pod.metadata {
        metadata.namespace.clone_from(&given.namespace);
        metadata.labels.clone_from(&given.labels);
        // Default spread constraints depend on the controller, generated claims on the name.
        metadata.owner_references.clone_from(&given.owner_references);
        let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
        let mut sources = volumes.filter_map(|volume| volume.volume_source.as_ref());
        if sources.any(|source| source.ephemeral.is_some()) {
            metadata.name.clone_from(&given.name);
        }
    }
    let nominated = pod.status.as_ref().map(|status| status.nominated_node_name.clone());
    content.status.get_or_insert_default().nominated_node_name = nominated.unwrap_or_default();
    content.encode_to_vec()
}

/// The cluster that is asked, and how.
struct Asker<'a> {
    cluster: &'a Cluster,
    profiles: &'a Profiles,
    tie_break: TieBreak,
    cancelled: &'a dyn Fn() -> bool,
}

impl Asker<'_> {
    fn cause_of(&self, waiting: &Waiting) -> Result<Found, CallError> {
        let (pod, policy) = match self.compiled(waiting) {
            Ok(compiled) => compiled,
            Err(error) => return Ok(Found::apart(error.to_string(), "")),
        };
        let request = PlaceRequest {
            pod: &pod,
            policy,
            tie_break: self.tie_break,
            now: Some(clock::unix_seconds()),
        };
        Ok(match self.cluster.place(&request) {
            Ok(decision) => Found::of(decision.outcome),
            Err(engine::EngineError::Cancelled) => return Err(CallError::DeadlineExceeded),
            Err(error) => Found::apart(error.to_string(), ""),
        })
    }

    fn compiled(&self, waiting: &Waiting) -> Result<(Pod, &Policy), CallError> {
        convert::pod_to_place(self.cluster, self.profiles, Some(&waiting.object), false)
    }

    fn to_wire(
        &self,
        group: Group,
        waiting: &[Waiting],
        with_remedies: bool,
    ) -> Result<wire::PendingGroup, CallError> {
        let Group { found: Found { cause, reasons, n_nodes, is_refused }, pods } = group;
        let members: Vec<&Waiting> = pods.iter().filter_map(|at| waiting.get(*at)).collect();
        let first = members.first().copied();
        let would_help = match first {
            Some(first) if is_refused && with_remedies => self.remedies(first)?,
            Some(_) | None => Vec::new(),
        };
        Ok(wire::PendingGroup {
            cause: cause.text,
            plugin: cause.plugin.to_owned(),
            reasons: reasons
                .into_iter()
                .map(|it| wire::ReasonCount { reason: it.text, n_nodes: it.n_nodes })
                .collect(),
            n_nodes: saturate(n_nodes),
            n_pods: saturate(members.len()),
            workloads: workloads(&members),
            would_help,
            first_pod: first.map(|it| convert::pod_key(it.pod.key(), it.pod.uid())),
        })
    }

    fn remedies(&self, waiting: &Waiting) -> Result<Vec<wire::Remedy>, CallError> {
        let Ok((pod, policy)) = self.compiled(waiting) else { return Ok(Vec::new()) };
        let request = PlaceRequest {
            pod: &pod,
            policy,
            tie_break: self.tie_break,
            now: Some(clock::unix_seconds()),
        };
        match self.cluster.explain_unless(&request, &|_| false, self.cancelled) {
            Ok(account) => Ok(account.remedies.into_iter().map(convert::remedy).collect()),
            Err(engine::EngineError::Cancelled) => Err(CallError::DeadlineExceeded),
            Err(_) => Ok(Vec::new()),
        }
    }
}

impl Found {
    /// A cause that is no refusal by nodes.
    fn apart(text: String, plugin: &'static str) -> Found {
        let cause = Cause { text, plugin };
        Found { cause, reasons: Vec::new(), n_nodes: 0, is_refused: false }
    }

    fn of(outcome: Outcome) -> Found {
        let refused = match outcome {
            Outcome::Placed(_) => {
                return Found::apart("fits now: its scheduler has yet to take it".to_owned(), "");
            }
            Outcome::Gated { plugin, reasons } => {
                return Found::apart(reasons.join(", "), plugin.name());
            }
            Outcome::Unschedulable(refused) => refused,
        };
        let n_nodes = refused.n_nodes as usize;
        if let Some((plugin, _, reasons)) = refused.pre_filter {
            let cause = Cause { text: reasons.join(", "), plugin: plugin.name() };
            return Found { cause, reasons: Vec::new(), n_nodes, is_refused: true };
        }
        let Some(plugin) = nearest(&refused.reasons) else {
            let cause = Cause { text: refused.message, plugin: "" };
            return Found { cause, reasons: Vec::new(), n_nodes, is_refused: true };
        };
        let mut reasons = refused.reasons;
        reasons.retain(|reason| reason.plugin == plugin);
        reasons.sort_by(|a, b| b.n_nodes.cmp(&a.n_nodes).then_with(|| a.text.cmp(&b.text)));
        let mut texts: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        texts.sort_unstable();
        let cause = Cause { text: texts.join(", "), plugin: plugin.name() };
        Found { cause, reasons, n_nodes, is_refused: true }
    }
}

/// The plugin that stands in the way on the nodes that come nearest: nodes that are not meant for the pod are left out as
/// long as any other is refused.
fn nearest(reasons: &[CountedReason]) -> Option<Plugin> {
    let is_meant_for_others = |plugin: Plugin| {
        matches!(
            plugin,
            Plugin::NodeUnschedulable
                | Plugin::NodeName
                | Plugin::TaintToleration
                | Plugin::NodeAffinity
        )
    };
    let mut counts: BTreeMap<(bool, &str), (u32, Plugin)> = BTreeMap::new();
    for CountedReason { plugin, n_nodes, .. } in reasons {
        let entry =
            counts.entry((!is_meant_for_others(*plugin), plugin.name())).or_insert((0, *plugin));
        entry.0 = entry.0.saturating_add(*n_nodes);
    }
    let best = counts
        .into_iter()
        .max_by_key(|((is_near, name), (n, _))| (*is_near, *n, Reverse(name.to_string())));
    best.map(|(_, (_, plugin))| plugin)
}

/// The workloads of the pods, the one with most pods first, then by name.
fn workloads(pods: &[&Waiting]) -> Vec<wire::PendingWorkload> {
    let mut counts: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for Waiting { pod, object } in pods {
        let controller = object.metadata.as_ref().and_then(ObjectMeta::controller);
        let (kind, name) = match controller {
            Some(owner) => (owner.kind.clone(), owner.name.clone()),
            None => ("Pod".to_owned(), pod.key().name.to_string()),
        };
        *counts.entry((pod.key().namespace.to_string(), name, kind)).or_default() += 1;
    }
    let mut workloads: Vec<_> = counts.into_iter().collect();
    workloads.sort_by_key(|(_, n)| Reverse(*n));
    let to_wire = |((namespace, name, kind), n): ((String, String, String), usize)| {
        wire::PendingWorkload { namespace, kind, name, n_pods: saturate(n) }
    };
    workloads.into_iter().take(MAX_WORKLOADS).map(to_wire).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;

    fn add(cluster: &Cluster, pod: &core_v1::Pod) {
        let pod = cluster.compile_reported_pod(pod).unwrap();
        cluster.apply(vec![engine::Delta::UpsertPod(pod)]);
    }

    #[test]
    fn pods_are_grouped_by_what_keeps_them() {
        let state = fixture::state(&[("n0", "4"), ("n1", "4")]);
        for (name, cpu) in [("a", "8"), ("b", "9"), ("fits", "1")] {
            add(&state.cluster, &fixture::pod(name, cpu, 0));
        }
        let mut selective = fixture::pod("c", "1", 5);
        let selector = &mut selective.spec.as_mut().unwrap().node_selector;
        selector.insert("disk".to_owned(), "ssd".to_owned());
        add(&state.cluster, &selective);
        let mut elsewhere = fixture::pod("d", "1", 0);
        "theirs".clone_into(&mut elsewhere.spec.as_mut().unwrap().scheduler_name);
        add(&state.cluster, &elsewhere);
        let list = |request: ListPendingRequest| {
            let ties = TieBreak::Lexicographic;
            list(&state.cluster, &state.profiles, ties, &request, &|| false).unwrap()
        };
        let answer = list(ListPendingRequest::default());
        assert_eq!((answer.n_pods, answer.n_groups, answer.n_not_decided), (5, 4, 0));
        let first = &answer.groups[0];
        assert_eq!(
            (first.cause.as_str(), first.plugin.as_str()),
            ("Insufficient cpu", "NodeResourcesFit")
        );
        assert_eq!((first.n_pods, first.workloads.len(), first.reasons[0].n_nodes), (2, 2, 2));
        assert!(!first.would_help.is_empty());
        let group = |pod: &str| {
            let is_it = |key: &wire::PodKey| key.name == pod;
            answer.groups.iter().find(|it| it.first_pod.as_ref().is_some_and(is_it)).unwrap()
        };
        assert_eq!(group("c").plugin, "NodeAffinity");
        assert!(group("d").cause.contains("no profile is called `theirs`"), "{:?}", group("d"));
        assert!(group("fits").cause.starts_with("fits now"));
        let bounded = list(ListPendingRequest { max_pods: 1, max_groups: 1, ..Default::default() });
        assert_eq!((bounded.groups.len(), bounded.n_not_decided), (1, 4));
        assert_eq!(bounded.groups[0].plugin, "NodeAffinity", "the highest priority comes first");
    }

    #[test]
    fn a_list_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        add(&state.cluster, &fixture::pod("a", "8", 0));
        let (ties, request) = (TieBreak::Lexicographic, ListPendingRequest::default());
        let ended = list(&state.cluster, &state.profiles, ties, &request, &|| true);
        assert_eq!(ended.unwrap_err(), CallError::DeadlineExceeded);
    }
}
