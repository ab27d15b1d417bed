//! Drains: the rules in their order, and plans that are carried out step by step on a fork.

mod budgets;
mod nodes;
mod plans;
pub(super) mod replay;
mod rules;

use std::sync::Arc;

use berth_engine::{
    BlockingReason, Cluster, Delta, Drain, DrainMode, DrainRequest, DrainRules, EngineError,
    NodeDrain, NodeOutcome, NodeRules, PodDrain, PodVerdict, Policy, TieBreak, UnremovableReason,
};
use berth_proto::core_v1;
use serde_json::{Value, json};

use berth_testing::object;
pub(super) use plans::{recorded, world as world_of};

/// 2026-03-01T12:00:00Z
pub(crate) const NOW: i64 = 1_772_366_400;

/// Builds a pod from words, as [`object::pod`] reads them, with a uid; `metadata` and `spec` of the JSON are merged
/// into it.
pub(crate) fn pod(words: &str, more: Value) -> core_v1::Pod {
    let mut pod = serde_json::to_value(object::pod(words)).unwrap();
    merge(&mut pod, more);
    serde_json::from_value(pod).unwrap()
}

/// Builds a pod that a ReplicaSet would create again.
pub(crate) fn replica(words: &str) -> core_v1::Pod {
    pod(words, json!({"metadata": {"ownerReferences": [owner("ReplicaSet", "rs")]}}))
}

pub(crate) fn owner(kind: &str, name: &str) -> Value {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    json!({"kind": kind, "name": name, "uid": name, "apiVersion": version, "controller": true})
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// Builds a disruption budget `namespace/name` with a selector, which allows this number of evictions.
#[allow(clippy::needless_pass_by_value, reason = "callers write the selector as `json!`")]
pub(crate) fn budget(cluster: &Cluster, name: &str, selector: Value, n_allowed: i32) -> Delta {
    let (namespace, name) = name.split_once('/').unwrap();
    let budget = json!({
        "metadata": {"namespace": namespace, "name": name}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": n_allowed}
    });
    let budget: berth_proto::policy_v1::PodDisruptionBudget =
        serde_json::from_value(budget).unwrap();
    Delta::UpsertObject(cluster.compile_object(&budget).unwrap())
}

/// Builds a cluster of these nodes and pods.
pub(crate) fn cluster(nodes: &[&str], pods: &[core_v1::Pod]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|node| cluster.compile_node(&object::node(node)).unwrap());
    let pods = pods.iter().map(|pod| cluster.compile_pod(pod).unwrap());
    let deltas = nodes.map(Delta::UpsertNode).chain(pods.map(Delta::UpsertPod)).collect();
    assert_eq!(cluster.apply(deltas).rejected, []);
    cluster
}

/// A request for a drain; fields that a test does not set have their defaults.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(super) nodes: Vec<Arc<str>>,
    pub(super) mode: DrainMode,
    pub(super) destinations: Option<Vec<Arc<str>>>,
    pub(super) node_rules: NodeRules<'a>,
    pub(super) rules: DrainRules,
    pub(super) hints: Vec<(berth_engine::PodKey, Arc<str>)>,
}

impl Ask<'_> {
    pub(crate) fn of<'n>(nodes: impl IntoIterator<Item = &'n str>) -> Ask<'static> {
        Ask {
            nodes: nodes.into_iter().map(Arc::from).collect(),
            mode: DrainMode::OneByOne,
            destinations: None,
            node_rules: NodeRules::default(),
            rules: DrainRules::default(),
            hints: Vec::new(),
        }
    }

    pub(crate) fn drain(&self, cluster: &Cluster) -> Drain {
        let before = cluster.snapshot().generation();
        let drained = self.try_drain(cluster).unwrap();
        assert_eq!(drained, self.try_drain(cluster).unwrap(), "the same again (S-CAS-8)");
        assert_eq!((drained.generation, cluster.snapshot().generation()), (before, before));
        assert_eq!(drained.nodes.len(), self.nodes.len());
        drained
    }

    pub(crate) fn try_drain(&self, cluster: &Cluster) -> Result<Drain, EngineError> {
        let policy = Policy::default();
        cluster.simulate_drain(&DrainRequest {
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            nodes: &self.nodes,
            mode: self.mode,
            destinations: self.destinations.as_deref(),
            hints: &self.hints,
            node_rules: self.node_rules,
            rules: self.rules,
            now: NOW,
            cancelled: &|| false,
        })
    }
}

/// Describes the verdict on a pod: `n1` or `n1@2` for its next node and wave, a reason, or the kind of the verdict.
pub(crate) fn word(pod: &PodDrain) -> String {
    match &pod.verdict {
        PodVerdict::Moves { node, wave: 0 } => format!("({node})"),
        PodVerdict::Moves { node, wave } => format!("{node}@{wave}"),
        PodVerdict::Daemon => "daemon".to_owned(),
        PodVerdict::Mirror => "mirror".to_owned(),
        PodVerdict::LongTerminating => "late".to_owned(),
        PodVerdict::OnCompletion => "waits".to_owned(),
        PodVerdict::Blocked { reason, .. } => reason.as_str().to_owned(),
        PodVerdict::NoRoom { .. } => "no room".to_owned(),
    }
}

/// Describes the verdicts on all pods of a node, by name: `a=n1@1 b=daemon`.
pub(crate) fn words(node: &NodeDrain) -> String {
    let words = node.pods.iter().map(|pod| format!("{}={}", pod.pod.name, word(pod)));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns why a node stays, and the pod that is the reason.
pub(crate) fn stays(node: &NodeDrain) -> Option<(UnremovableReason, Option<&str>)> {
    match &node.outcome {
        NodeOutcome::Removable { .. } => None,
        NodeOutcome::Unremovable { reason, blocking_pod, .. } => {
            Some((*reason, blocking_pod.as_ref().map(|pod| &*pod.name)))
        }
    }
}

/// The codes of cluster-autoscaler are the positions in the lists (S-SD-4, S-SD-8).
#[test]
fn codes_are_places() {
    let blocking: Vec<&str> = BlockingReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let expected = "NoReason ControllerNotFound MinReplicasReached NotReplicated LocalStorageRequested \
        NotSafeToEvictAnnotation UnmovableKubeSystemPod NotEnoughPdb UnexpectedError";
    assert_eq!(blocking.join(" "), expected);
    let unremovable: Vec<&str> = UnremovableReason::ALL.iter().map(|r| r.as_str()).collect();
    let expected = "NoReason ScaleDownDisabledAnnotation ScaleDownUnreadyDisabled NotAutoscaled \
        NotUnneededLongEnough NotUnreadyLongEnough NodeGroupMinSizeReached \
        NodeGroupMaxDeletionCountReached AtomicScaleDownFailed MinimalResourceLimitExceeded \
        CurrentlyBeingDeleted NotUnderutilized NotUnneededOtherReason RecentlyUnremovable \
        NoPlaceToMovePods BlockedByPod UnexpectedError NoNodeInfo BlockedByOnCompletionPod";
    assert_eq!(unremovable.join(" "), expected);
}
