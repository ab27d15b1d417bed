//! Pod garbage collection (group `podgc`): four passes over all pods, each with its cause. Otherwise pods disappear
//! only when a person or a controller deletes them (L-GC-10).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_proto::berth_v1::{self, PodGcAction, PodGcRequest, PodGcResponse};
use berth_proto::core_v1::Pod;

use super::condition::DisruptionCause;
use super::deletion::{
    NodeAbsence, NodeObject, RemovalReason, collector_entitlement, place_entitlement,
};
use super::fence::is_out_of_service;
use super::listed::{nodes_by_name, refuse_duplicates};
use super::reading::{self, Seconds, after, in_list};
use super::vocabulary::PodPhase;
use super::word::words;
use crate::model::ModelError;

words! {
    /// Cause of a removal, in the order of the passes (L-GC-7).
    enum GcCause {
        /// The number of ended pods is above the threshold (L-GC-1).
        TerminatedOverThreshold = "TerminatedOverThreshold",
        /// The pod is marked for deletion, and its node is declared out of service (L-GC-5).
        TerminatingOutOfService = "TerminatingOutOfService",
        /// The pod's node has no object (L-GC-3).
        Orphaned = "Orphaned",
        /// The pod is marked for deletion and was never bound (L-GC-4).
        UnscheduledTerminating = "UnscheduledTerminating",
    }
}

/// Seconds between two runs (L-GC-9).
pub(crate) const PERIOD_SECONDS: Seconds = 20;

/// Default number of ended pods that may stay (L-GC-1).
const TERMINATED_POD_THRESHOLD: i64 = 12_500;

/// Facts that decide about a pod.
struct Facts<'a> {
    pod: &'a Pod,
    phase: PodPhase,
    order: RemovalOrder<'a>,
}

/// Order of removal: evicted pods first, then the oldest, then by name (L-GC-2, L-GC-7). Pods of equal names differ in
/// their namespaces.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RemovalOrder<'a> {
    is_evicted: Reverse<bool>,
    created: Option<Seconds>,
    name: &'a str,
    namespace: &'a str,
}

/// Facts about the nodes.
struct Nodes<'a> {
    /// Whether a node is out of service, by name.
    by_name: BTreeMap<&'a str, bool>,
    absent: &'a BTreeMap<String, berth_v1::NodeAbsence>,
    now: Seconds,
}

/// `PodGC`: one run (L-GC-1 to L-GC-8). The response does not depend on the order of pods and nodes. Cost: a sort of
/// the pods.
///
/// # Errors
/// [`ModelError`] for an unknown phase or readiness, a pod or node without a name, a duplicate, and a missing `now`.
pub fn pod_gc(request: &PodGcRequest) -> Result<PodGcResponse, ModelError> {
    let now = reading::required(request.now.as_ref(), "now")?;
    let by_name = nodes_by_name(&request.nodes, is_out_of_service)?;
    let nodes = Nodes { by_name, absent: &request.absent_nodes, now };
    let pods = read_pods(&request.pods)?;
    let mut ended: Vec<&Facts<'_>> =
        pods.iter().filter(|facts| facts.phase.is_terminal()).collect();
    ended.sort_unstable_by(|left, right| left.order.cmp(&right.order));
    let kept = ended.split_off(n_over_threshold(request, ended.len()));
    let others = pods.iter().filter(|facts| !facts.phase.is_terminal());
    let over = ended.into_iter().map(|facts| (GcCause::TerminatedOverThreshold, facts));
    let mut wanted: Vec<(GcCause, &Facts<'_>)> = over
        .chain(
            kept.into_iter().chain(others).filter_map(|facts| Some((nodes.cause(facts)?, facts))),
        )
        .collect();
    wanted.sort_unstable_by(|left, right| (left.0, &left.1.order).cmp(&(right.0, &right.1.order)));
    let mut actions = Vec::with_capacity(wanted.len());
    for (cause, facts) in wanted {
        // Each removal needs an entitlement; a pass alone removes nothing (L-GC-8, L-TEST-10).
        let node = nodes.object_of(facts.pod);
        if let Ok(entitlement) = collector_entitlement(facts.pod, facts.phase, node, now) {
            actions.push(facts.removal(cause, entitlement));
        }
    }
    let next_run_at = after(now, PERIOD_SECONDS).map(reading::time);
    Ok(PodGcResponse { actions, next_run_at })
}

/// Number of ended pods to remove, beginning with the first in order (L-GC-1).
fn n_over_threshold(request: &PodGcRequest, n_ended: usize) -> usize {
    match request.terminated_pod_threshold.unwrap_or(TERMINATED_POD_THRESHOLD) {
        off if off <= 0 => 0,
        threshold => n_ended.saturating_sub(usize::try_from(threshold).unwrap_or(usize::MAX)),
    }
}

impl Nodes<'_> {
    /// The first of the passes 2, 3 and 4 that applies to the pod (L-GC-3 to L-GC-5). They go by its node, not by its
    /// phase.
    fn cause(&self, facts: &Facts<'_>) -> Option<GcCause> {
        match place_entitlement(facts.pod, self.object_of(facts.pod), self.now) {
            Ok(RemovalReason::NodeOutOfService) => Some(GcCause::TerminatingOutOfService),
            Ok(RemovalReason::NodeObjectDeleted) => Some(GcCause::Orphaned),
            Ok(RemovalReason::NeverBound) => Some(GcCause::UnscheduledTerminating),
            _ => None,
        }
    }

    /// The facts about the pod's node.
    fn object_of(&self, pod: &Pod) -> NodeObject {
        let name = reading::node_name(pod).unwrap_or_default();
        if let Some(is_out_of_service) = self.by_name.get(name).copied() {
            return NodeObject::There { is_out_of_service };
        }
        let absence = self.absent.get(name);
        NodeObject::Absent(NodeAbsence {
            noticed_at: absence.and_then(|absence| reading::optional(absence.since.as_ref())),
            confirmed_live: absence.is_some_and(|absence| absence.confirmed_live),
        })
    }
}

impl<'a> Facts<'a> {
    fn read(pod: &'a Pod) -> Result<Facts<'a>, ModelError> {
        let meta = reading::meta(pod);
        let name = reading::given_text(&meta.name, "metadata.name")?;
        let phase = reading::phase(pod)?;
        let is_evicted = phase == PodPhase::Failed && reading::status(pod).reason == "Evicted";
        Ok(Facts {
            pod,
            phase,
            order: RemovalOrder {
                is_evicted: Reverse(is_evicted),
                created: reading::optional(meta.creation_timestamp.as_ref()),
                name,
                namespace: reading::namespace(&meta.namespace),
            },
        })
    }

    /// The removal of the pod: a terminal pod is removed as it is, any other is set Failed first, an orphan is marked
    /// too (L-GC-6).
    fn removal(&self, cause: GcCause, entitlement: RemovalReason) -> PodGcAction {
        let is_terminal = self.phase.is_terminal();
        let is_marked = cause == GcCause::Orphaned && !is_terminal;
        PodGcAction {
            pod: self.order.name.to_owned(),
            cause: cause.word().to_owned(),
            set_phase: if is_terminal { "" } else { PodPhase::Failed.word() }.to_owned(),
            disruption_reason: if is_marked {
                DisruptionCause::OrphanedByPodGc.reason()
            } else {
                ""
            }
            .to_owned(),
            namespace: self.order.namespace.to_owned(),
            uid: reading::meta(self.pod).uid.clone(),
            entitlement: entitlement.word().to_owned(),
        }
    }
}

/// Reads the facts of every pod, and refuses duplicates.
fn read_pods(pods: &[Pod]) -> Result<Vec<Facts<'_>>, ModelError> {
    let mut facts = Vec::with_capacity(pods.len());
    for (index, pod) in pods.iter().enumerate() {
        facts.push(in_list("pods", index, Facts::read(pod))?);
    }
    refuse_duplicates(pods.iter(), "metadata.name")?;
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use berth_proto::core_v1::{Node, PodSpec, PodStatus};
    use berth_proto::meta_v1::ObjectMeta;

    use super::*;

    /// `name phase node created`, `node` with a leading `!` for a pod to be deleted; `-` is absent.
    fn pod(text: &str) -> Pod {
        let words: Vec<&str> = text.split(' ').collect();
        let (marked, node) = words[2].strip_prefix('!').map_or((false, words[2]), |n| (true, n));
        let absent = |word: &str| if word == "-" { String::new() } else { word.to_owned() };
        Pod {
            metadata: Some(ObjectMeta {
                name: absent(words[0]),
                creation_timestamp: words[3].parse().ok().map(reading::time),
                deletion_timestamp: marked.then(|| reading::time(1)),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec { node_name: absent(node), ..PodSpec::default() }),
            status: Some(PodStatus { phase: absent(words[1]), ..PodStatus::default() }),
        }
    }

    fn node(name: &str) -> Node {
        let metadata = Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() });
        Node { metadata, ..Node::default() }
    }

    fn request(pods: &[&str]) -> PodGcRequest {
        let absence = |since| berth_v1::NodeAbsence {
            since: Some(reading::time(since)),
            confirmed_live: true,
        };
        PodGcRequest {
            pods: pods.iter().map(|text| pod(text)).collect(),
            nodes: vec![node("n")],
            terminated_pod_threshold: Some(1),
            absent_nodes: [("gone".to_owned(), absence(60)), ("going".to_owned(), absence(61))]
                .into(),
            now: Some(reading::time(100)),
        }
    }

    fn check(pods: &[&str], expected: &[&str]) {
        let answer = pod_gc(&request(pods)).unwrap();
        let lines: Vec<String> = answer
            .actions
            .iter()
            .map(|a| format!("{} {} {} {}", a.pod, a.cause, a.entitlement, a.set_phase))
            .collect();
        assert_eq!(lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), expected);
    }

    /// L-GC-7: the first pass that applies to a pod acts on it, and the others skip it; L-GC-8: each removal has an
    /// entitlement.
    #[test]
    fn a_pod_is_acted_on_once() {
        check(
            &["b Failed gone 3", "a Succeeded gone 2", "c Succeeded ! -"],
            &[
                "c TerminatedOverThreshold NeverBound",
                "a TerminatedOverThreshold TerminalPhase",
                "b Orphaned TerminalPhase",
            ],
        );
        check(&["a Running !gone 2"], &["a Orphaned NodeObjectDeleted Failed"]);
        check(&["a Running !going 2", "b Running going 2", "c - other 2", "d - !n 2"], &[]);
    }

    /// L-GC-2: a pod without a creation time is the oldest.
    #[test]
    fn oldest_first() {
        check(
            &["b Unknown gone 5", "a Running gone 5", "d Pending gone -", "c - gone 4"],
            &[
                "d Orphaned NodeObjectDeleted Failed",
                "c Orphaned NodeObjectDeleted Failed",
                "a Orphaned NodeObjectDeleted Failed",
                "b Orphaned NodeObjectDeleted Failed",
            ],
        );
    }

    /// L-GC-10: a pod that no pass applies to stays, finished or lost.
    #[test]
    fn other_pods_stay() {
        check(&["a Failed n 1", "b Running lost 1", "c Unknown n 1", "d Pending - 1"], &[]);
    }

    /// L-GC-3: a node that has registered again is not absent, even if the request lists it as absent.
    #[test]
    fn a_node_that_is_back_has_no_orphans() {
        let request = PodGcRequest { nodes: vec![node("gone")], ..request(&["a - gone 1"]) };
        assert!(pod_gc(&request).unwrap().actions.is_empty());
        let mut unknown_since = self::request(&["a - gone 1"]);
        unknown_since.absent_nodes.get_mut("gone").unwrap().since = None;
        assert!(pod_gc(&unknown_since).unwrap().actions.is_empty());
    }

    /// L-GC-1, L-GC-9: the defaults, and a threshold beyond any number of pods.
    #[test]
    fn thresholds_and_the_next_run() {
        let pods: Vec<String> = (0..12_503).map(|n| format!("p{n:05} Failed n {n}")).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let mut request = PodGcRequest { terminated_pod_threshold: None, ..request(&pods) };
        let answer = pod_gc(&request).unwrap();
        let names: Vec<&str> = answer.actions.iter().map(|action| action.pod.as_str()).collect();
        assert_eq!(names, ["p00000", "p00001", "p00002"]);
        assert_eq!(answer.next_run_at, Some(reading::time(120)));
        let last =
            PodGcRequest { now: Some(reading::time(reading::END_OF_TIME)), ..request.clone() };
        assert_eq!(pod_gc(&last).unwrap().next_run_at, None);
        for threshold in [i64::MAX, i64::MIN, 0] {
            request.terminated_pod_threshold = Some(threshold);
            assert!(pod_gc(&request).unwrap().actions.is_empty());
        }
        // The other passes cannot be configured away (L-DEL-20).
        request.pods.push(pod("late Pending ! 1"));
        let actions = pod_gc(&request).unwrap().actions;
        assert_eq!(actions.iter().map(|action| &*action.pod).collect::<Vec<_>>(), ["late"]);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |request| pod_gc(&request).unwrap_err().to_string();
        assert_eq!(refused(PodGcRequest { now: None, ..request(&[]) }), "`now`: required");
        assert_eq!(
            refused(request(&["a Dead n 1"])),
            "`pods[0].status.phase`: unknown value `Dead`: not one of `Pending`, `Running`, \
             `Succeeded`, `Failed`, `Unknown`"
        );
        assert_eq!(
            refused(request(&["a - n 1", "b - n 1", "a - n 2"])),
            "`pods[2].metadata.name`: `default/a` is a duplicate of `pods[0]`"
        );
        assert_eq!(refused(request(&["- - n 1"])), "`pods[0].metadata.name`: required");
        let mut unknown = node("n");
        unknown.status = serde_json::from_str(r#"{"conditions": [{"type": "Ready"}]}"#).unwrap();
        let error = refused(PodGcRequest { nodes: vec![unknown], ..request(&[]) });
        assert!(error.starts_with("`nodes[0].status.conditions[0].status`: required"), "{error}");
        let nodes = vec![node("n"), node("n")];
        assert_eq!(
            refused(PodGcRequest { nodes, ..request(&[]) }),
            "`nodes[1].metadata.name`: duplicate `n`"
        );
    }
}
