//! Recorded clusters: kube-scheduler's messages in their pending pods are compared with Berth's decisions.

use berth_engine::{Cluster, Outcome, Pod, Policy, PreemptOptions, PreemptRequest, TieBreak};
use berth_proto::core_v1;
use berth_server::feed::file::{self, UnknownFields};
use berth_testing::recorded;

/// Numbers of pending pods that Berth decides as recorded, by reason.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    n_unschedulable: usize,
    n_gated: usize,
    /// Pods that name another scheduler.
    n_others: usize,
    /// Pods that are refused, each with the field that this version does not evaluate.
    held_back: Vec<String>,
}

fn is_pending(pod: &mut core_v1::Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_empty())
        && pod.status.as_ref().is_some_and(|status| status.phase == "Pending")
}

/// Reason and message of the PodScheduled condition that kube-scheduler wrote.
fn recorded(pod: &core_v1::Pod) -> Option<(&str, &str)> {
    let conditions = &pod.status.as_ref()?.conditions;
    let scheduled = conditions.iter().find(|condition| condition.r#type == "PodScheduled")?;
    Some((scheduled.reason.as_str(), scheduled.message.as_str()))
}

fn check(cluster: &Cluster, policy: &Policy, pod: &Pod, word: Option<(&str, &str)>) -> Found {
    let mut found = Found::default();
    if pod.scheduler_name() != policy.spec().scheduler_name {
        assert_eq!(word, None, "{}", pod.key());
        found.n_others += 1;
        return found;
    }
    let (tie_break, options) = (TieBreak::Lexicographic, PreemptOptions::default());
    let request =
        PreemptRequest { pod, policy, tie_break, options, cancelled: &|| false, now: None };
    match (cluster.preempt(&request).map(|attempt| attempt.decision.outcome), word) {
        (Ok(Outcome::Unschedulable(unschedulable)), Some(("Unschedulable", message))) => {
            assert_eq!(unschedulable.message, message, "{}", pod.key());
            found.n_unschedulable += 1;
        }
        (Ok(Outcome::Gated { .. }), Some(("SchedulingGated", _))) => found.n_gated += 1,
        // kube-scheduler holds such a pod back before its queue, and says nothing (S-Q-7).
        (Ok(Outcome::Gated { reasons, .. }), None) => {
            found.held_back.push(format!("{}: {}", pod.key(), reasons.join(", ")));
        }
        (decided, word) => panic!("{}: {decided:?}\n  but recorded: {word:?}", pod.key()),
    }
    found
}

/// Checks every pending pod of a dump against its recorded condition, unless the dump is missing.
fn check_dump(name: &str) -> Option<Found> {
    let path = recorded::find(&format!("data/cluster-dump/{name}"))?;
    let cluster = Cluster::new();
    let (report, pending) =
        file::load_files_keeping(&cluster, &[path], UnknownFields::Refuse, is_pending).unwrap();
    assert_eq!(report.refused, []);
    assert_eq!(pending.len(), report.n_pending);
    let policy = Policy::default();
    let mut sum = Found::default();
    for pod in pending {
        let compiled = cluster.compile_pod(&pod.value).unwrap();
        let found = check(&cluster, &policy, &compiled, recorded(&pod.value));
        sum.n_unschedulable += found.n_unschedulable;
        sum.n_gated += found.n_gated;
        sum.n_others += found.n_others;
        sum.held_back.extend(found.held_back);
    }
    Some(sum)
}

/// A pod whose claim does not exist.
const HELD_BACK: &str =
    "payments/claim-device: could not find ResourceClaim \"payments/no-such-device-claim\"";

#[test]
fn every_pending_pod_has_kube_schedulers_message() {
    let Some(found) = check_dump("mid.json.gz") else { return };
    let expected = Found {
        n_unschedulable: 50,
        n_gated: 3,
        n_others: 1,
        held_back: vec![HELD_BACK.to_owned()],
    };
    assert_eq!(found, expected);
}

#[test]
fn every_pending_pod_of_the_small_dump_too() {
    let Some(found) = check_dump("small.yaml") else { return };
    assert_eq!(found, Found { n_unschedulable: 2, ..Found::default() });
}
