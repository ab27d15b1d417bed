//! Compares whole attempts of the engine, PostFilter included, with those of the naive scheduler.

use berth_engine::{
    Candidate, CandidateList, EngineError, NodeVerdict, Nomination, Outcome, PodKey, PostFilter,
    PostFilterCode, Preemption, TieBreak, Verdict, Victim,
};
use berth_proto::core_v1::Pod;

use crate::naive::attempt::Attempt;
use crate::naive::cluster::NaiveCluster;
use crate::naive::dry_run;
use crate::naive::pod;
use crate::naive::post_filter::{self, cleared_nominations, whole_message};

/// An outcome of the naive scheduler, with the cluster and the pod.
pub(crate) struct Expected<'a> {
    pub(crate) cluster: &'a NaiveCluster,
    pub(crate) pod: &'a Pod,
    pub(crate) attempt: &'a Attempt,
    pub(crate) post_filter: Option<&'a post_filter::PostFilter>,
}

/// Outcomes of the engine for one pod: the decision of `preempt` and the list of candidates.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) preemption: Result<Preemption, EngineError>,
    pub(crate) list: Result<CandidateList, EngineError>,
}

pub(crate) fn check(expected: &Expected<'_>, tie_break: TieBreak, got: &Got) {
    let (preemption, list) = match (&got.preemption, &got.list) {
        (Ok(preemption), Ok(list)) => (preemption, list),
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            assert!(
                matches!(expected.attempt, Attempt::Error),
                "{one} instead of {:#?}",
                expected.attempt
            );
            return;
        }
        _ => panic!("{got:#?}"),
    };
    assert!(!matches!(expected.attempt, Attempt::Error), "{preemption:?} instead of an error");
    assert_eq!(preemption, &list.preemption, "one candidate and all of them");
    match (expected.post_filter, &preemption.post_filter) {
        (None, None) => assert_eq!(list.candidates, []),
        (Some(wanted), Some(found)) => {
            check_post_filter(expected, wanted, tie_break, found);
            check_list(wanted, list);
        }
        (wanted, found) => panic!("{found:?} instead of {wanted:?}"),
    }
    check_message(expected, preemption);
}

fn check_post_filter(
    expected: &Expected<'_>,
    wanted: &post_filter::PostFilter,
    tie_break: TieBreak,
    found: &PostFilter,
) {
    assert_eq!(found.code, wanted.code, "{found:?}");
    if let Some(message) = &wanted.message {
        assert_eq!(&found.message, message);
    }
    assert_eq!(found.n_candidates as usize, wanted.candidates.len());
    assert_eq!(found.n_best as usize, wanted.best.len());
    let Some(chosen) = &found.chosen else {
        assert_ne!(found.code, PostFilterCode::Success);
        assert_eq!(found.nomination, wanted.nomination);
        assert_eq!(found.cleared_nominations, []);
        return;
    };
    let is_best = wanted.best.iter().any(|name| **name == *chosen.node);
    assert!(is_best, "{} is not one of {:?}", chosen.node, wanted.best);
    if tie_break == TieBreak::Lexicographic {
        assert_eq!(*chosen.node, *wanted.best[0]);
    }
    assert_eq!(found.nomination, Nomination::Node(chosen.node.clone()));
    let of_node = wanted.candidates.iter().find(|candidate| *candidate.node == *chosen.node);
    let of_node = of_node.map(candidate).expect("the best are candidates");
    assert_eq!(description(chosen), description(&of_node));
    assert_eq!(*chosen, of_node);
    // In kube-scheduler, updates that change nothing move a pod to the end; here its position stays.
    let mut cleared: Vec<PodKey> = found.cleared_nominations.clone();
    cleared.sort();
    let lower = cleared_nominations(expected.cluster, expected.pod, &chosen.node);
    let mut lower: Vec<PodKey> = lower.into_iter().map(key).collect();
    lower.sort();
    assert_eq!(cleared, lower);
}

fn check_list(wanted: &post_filter::PostFilter, list: &CandidateList) {
    let candidates: Vec<Candidate> = wanted.candidates.iter().map(candidate).collect();
    for (found, wanted) in list.candidates.iter().zip(&candidates) {
        assert_eq!(description(found), description(wanted));
    }
    assert_eq!(list.candidates, candidates);
    assert_eq!(list.best.iter().map(|name| &**name).collect::<Vec<_>>(), wanted.best);
    let verdict = |(node, (plugin, rejection)): (&String, &dry_run::NotHelped)| NodeVerdict {
        node: node.as_str().into(),
        verdict: Verdict::Rejected {
            plugin: *plugin,
            code: rejection.code,
            reasons: rejection.reasons.clone(),
        },
    };
    assert_eq!(list.not_helped, wanted.not_helped.iter().map(verdict).collect::<Vec<_>>());
}

fn check_message(expected: &Expected<'_>, preemption: &Preemption) {
    let Outcome::Unschedulable(unschedulable) = &preemption.decision.outcome else {
        assert_eq!(preemption.post_filter, None);
        return;
    };
    let head = match expected.attempt {
        Attempt::Decided(account) => &account.message,
        // The end of the message is the engine's own text (S-IPA-6).
        Attempt::Refused { by: Some((_, reason)), .. } if reason.ends_with(": ") => return,
        Attempt::Refused { message, .. } => message,
        Attempt::Gated(_) | Attempt::Error => panic!("{unschedulable:?}"),
    };
    let post_filter = preemption.post_filter.as_ref().map_or("", |found| &found.message);
    assert_eq!(unschedulable.message, whole_message(head, post_filter));
}

fn candidate(candidate: &dry_run::Candidate) -> Candidate {
    let victim = |of: &Pod| Victim {
        pod: key(of),
        uid: pod::uid(of).into(),
        priority: pod::priority(of),
        is_terminating: pod::is_terminating(of),
        elsewhere: None,
    };
    Candidate {
        node: candidate.node.as_str().into(),
        victims: candidate.victims.iter().map(victim).collect(),
        n_pdb_violations: candidate.n_pdb_violations,
    }
}

/// Describes a candidate in one line, so that a difference can be seen.
fn description(candidate: &Candidate) -> String {
    let victims: Vec<String> = candidate
        .victims
        .iter()
        .map(|victim| format!("{}({})", victim.pod.name, victim.priority))
        .collect();
    format!("{} !{}: {}", candidate.node, candidate.n_pdb_violations, victims.join(" "))
}

fn key(of: &Pod) -> PodKey {
    PodKey::new(pod::namespace(of), pod::name(of))
}
