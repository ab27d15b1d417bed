//! Removals and evictions: the garbage collector over random clusters, compared with a plain implementation of its
//! passes (L-GC-1 to L-GC-8) and with the authority to remove (L-DEL-6, L-TEST-10); absent taints evict no pod
//! (L-NODE-15); and the order of evictions from a node that is short of a resource is total and spares the promised
//! pods.

use std::collections::BTreeSet;

use berth_engine::lifecycle::deletion::authorize_removal;
use berth_engine::lifecycle::node_failure::taint_eviction;
use berth_engine::lifecycle::pod_gc::pod_gc;
use berth_proto::Time;
use berth_proto::berth_v1::{
    AuthorizeRemovalRequest, PodGcAction, PodGcRequest, RemovalActor, RemovalEvidence,
    RemovalTerms, ScheduledEviction, TaintEvictionRequest,
};
use berth_proto::core_v1::{Pod, Taint, Toleration};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::config;

mod cluster;
mod plain;
mod pressure;

use cluster::{is_terminal, meta, node_name, node_of};
use plain::plainly;

fn at(seconds: i64) -> Time {
    Time::from_unix_seconds(seconds)
}

/// Returns the authority's response to the collector's forced deletion of this pod.
fn authority(request: &PodGcRequest, pod: &Pod) -> (bool, String, String) {
    let absence = request.absent_nodes.get(node_name(pod)).cloned().unwrap_or_default();
    let answer = authorize_removal(&AuthorizeRemovalRequest {
        actor: Some(RemovalActor { kind: "podGC".to_owned(), ..RemovalActor::default() }),
        pod: Some(pod.clone()),
        request: Some(RemovalTerms {
            grace_period_seconds: Some(0),
            uid: meta(pod).uid.clone(),
            ..RemovalTerms::default()
        }),
        node: node_of(request, pod).cloned(),
        evidence: Some(RemovalEvidence {
            node_absent_since: absence.since,
            node_absence_confirmed_live: absence.confirmed_live,
            ..RemovalEvidence::default()
        }),
        now: request.now,
        key: None,
    })
    .unwrap();
    (answer.allowed, answer.effect, answer.reason)
}

/// Checks the writes before a removal: none to a terminal pod, and a disruption reason only for orphans (L-GC-6).
fn check_writes(pod: &Pod, action: &PodGcAction) {
    let expected = match (is_terminal(pod), action.cause.as_str()) {
        (true, _) => ("", ""),
        (false, "Orphaned") => ("Failed", "DeletionByPodGC"),
        (false, _) => ("Failed", ""),
    };
    assert_eq!((&*action.set_phase, &*action.disruption_reason), expected);
}

proptest! {
    #![proptest_config(config(1500, 11))]

    /// L-GC-1 to L-GC-8, L-TEST-10.
    #[test]
    fn collects_as_plainly_stated(request in cluster::cluster(), rotation in any::<prop::sample::Index>()) {
        let actions = pod_gc(&request).unwrap().actions;
        let removals: Vec<_> =
            actions.iter().map(|action| (action.uid.clone(), action.cause.as_str())).collect();
        prop_assert_eq!(&removals, &plainly(&request));

        let distinct: BTreeSet<_> = removals.iter().map(|(uid, _)| uid).collect();
        prop_assert_eq!(distinct.len(), removals.len(), "a pod at most once");
        for action in &actions {
            let pod = request.pods.iter().find(|pod| meta(pod).uid == action.uid).unwrap();
            let of = meta(pod);
            prop_assert_eq!((&action.pod, &action.namespace), (&of.name, &of.namespace));
            check_writes(pod, action);
            let lawful = (true, "Remove".to_owned(), action.entitlement.clone());
            prop_assert_eq!(authority(&request, pod), lawful);
        }
        let n_ended = request.pods.iter().filter(|pod| is_terminal(pod)).count();
        let n_over = removals.iter().filter(|(_, cause)| *cause == "TerminatedOverThreshold").count();
        let threshold = request.terminated_pod_threshold.unwrap_or(12_500);
        if usize::try_from(threshold).is_ok_and(|threshold| n_ended <= threshold) || threshold <= 0 {
            prop_assert_eq!(n_over, 0);
        } else {
            prop_assert_eq!(n_ended - n_over, usize::try_from(threshold).unwrap());
        }

        let mut reordered = request.clone();
        if !reordered.pods.is_empty() {
            let by = rotation.index(reordered.pods.len());
            reordered.pods.rotate_left(by);
            reordered.pods.reverse();
        }
        reordered.nodes.reverse();
        prop_assert_eq!(pod_gc(&reordered).unwrap().actions, actions, "independent of input order");
    }
}

fn toleration() -> impl Strategy<Value = Toleration> {
    (
        select(vec!["", "a", "b"]),
        select(vec!["", "Equal", "Exists", "Gt"]),
        select(vec!["", "NoSchedule", "NoExecute"]),
        proptest::option::of(any::<i64>()),
    )
        .prop_map(|(key, operator, effect, toleration_seconds)| Toleration {
            key: key.to_owned(),
            operator: operator.to_owned(),
            effect: effect.to_owned(),
            toleration_seconds,
            ..Toleration::default()
        })
}

proptest! {
    #![proptest_config(config(1000, 12))]

    /// L-NODE-15: no pod is evicted because of taints that are absent or do not evict, whatever else is in the request.
    #[test]
    fn no_taint_evicts_nobody(
        tolerations in vec(toleration(), 0..6),
        others in vec(select(vec!["NoSchedule", "PreferNoSchedule"]), 0..4),
        now in any::<i64>(),
        scheduled in proptest::option::of((any::<i32>(), 0..i64::MAX / 2)),
    ) {
        let taint = |effect: &str| Taint {
            key: "a".to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        let scheduled = scheduled.map(|(created, wait)| ScheduledEviction {
            created_at: Some(at(i64::from(created))),
            fire_at: Some(at(i64::from(created) + wait)),
        });
        let expected = if scheduled.is_some() { "Cancel" } else { "Keep" };
        let answer = taint_eviction(&TaintEvictionRequest {
            tolerations,
            taints: others.into_iter().map(taint).collect(),
            now: Some(at(now)),
            scheduled,
        })
        .unwrap();
        prop_assert_eq!((answer.decision.as_str(), answer.at), (expected, None));
    }
}

/// One run over a large cluster: 150,000 pods on 5,000 nodes in no particular order, a third of them ended.
#[test]
fn a_large_cluster() {
    let n = 150_000_u64;
    let pod = |index: u64| {
        let place = index * 7_919 % n;
        let phase = if place.is_multiple_of(3) { "Succeeded" } else { "Running" };
        cluster::pod_of(&format!("p{place:06}"), phase, &format!("n{}", place % 5_000), place)
    };
    let request = PodGcRequest {
        pods: (0..n).map(pod).collect(),
        nodes: (0..5_000).map(|index| cluster::ready_node(&format!("n{index}"))).collect(),
        now: Some(at(cluster::NOW)),
        ..PodGcRequest::default()
    };
    let actions = pod_gc(&request).unwrap().actions;
    let oldest = (0..50_000 - 12_500).map(|index| format!("p{:06}", 3 * index));
    assert!(actions.iter().map(|action| &action.pod).eq(oldest.collect::<Vec<_>>().iter()));
}
