//! Compares the engine's answers to an extender with the naive scheduler's.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_engine::{
    EngineError, Policy, Proposal, ProposalOutcome, Standing, Survey, SurveyRequest, Verdict,
};
use berth_proto::core_v1;

use super::twin::Twin;
use crate::naive::cluster::NaivePod;
use crate::naive::pod::uid;
use crate::naive::survey::{helps, is_lower, survey};

/// The largest number of nodes in one query whose evictions are tried.
const MAX_NODES: usize = 8;

/// End of a text that is only the beginning of the message.
const OPEN_END: &str = ": ";

pub(crate) fn check(twin: &Twin, pod: &core_v1::Pod, policy: &Policy) {
    let all: Vec<String> = twin.naive.nodes.keys().cloned().collect();
    check_survey(twin, pod, policy, &all);
    // The nodes differ from query to query, so that evaluations cached for some nodes are used for others.
    let n = twin.n_pods;
    let some = all.iter().enumerate().filter(|(i, _)| !(i + n).is_multiple_of(2 + n % 3));
    let mut some: Vec<String> = some.map(|(_, name)| name.clone()).collect();
    let n_moved = n % some.len().max(1);
    some.rotate_left(n_moved);
    check_survey(twin, pod, policy, &some);
    check_evictions(twin, pod, policy);
}

fn check_survey(twin: &Twin, pod: &core_v1::Pod, policy: &Policy, names: &[String]) {
    let expected = survey(&twin.naive, policy.spec(), pod, names);
    let compiled = twin.engine.compile_pod(pod).unwrap();
    let mut queried: Vec<&str> = names.iter().map(String::as_str).collect();
    queried.extend(["ghost", "ghost"]);
    queried.extend(names.first().map(String::as_str));
    let ask = |with_totals| {
        let request = SurveyRequest { pod: &compiled, policy, with_totals };
        twin.engine.survey(&request, queried.iter().copied())
    };
    let found = match (&expected, ask(true)) {
        (Ok(_), Ok(found)) => found,
        (Err(_), Err(EngineError::SchedulerError { .. })) => return,
        (expected, found) => panic!("{found:?} instead of {}", expected.is_ok()),
    };
    assert_eq!(found.standings.len(), queried.len());
    let verdicts = expected.unwrap_or_default();
    assert_eq!(verdicts.len(), names.len());
    for (name, standing) in names.iter().zip(&found.standings) {
        check_verdict(&verdicts[name], *standing, &found);
    }
    let rest = &found.standings[names.len()..];
    assert_eq!(rest[..2], [Standing::Unknown; 2]);
    assert!(rest[2..].iter().all(|standing| *standing == Standing::Repeated));
    assert_eq!(found, ask(true).unwrap(), "the same question twice");
    let without = ask(false).unwrap();
    let feasible = |standing: &Standing| matches!(standing, Standing::Feasible { .. });
    assert_eq!(without.refusals, found.refusals);
    assert!(
        without
            .standings
            .iter()
            .zip(&found.standings)
            .all(|(a, b)| a == b || (feasible(b) && *a == Standing::Feasible { total: 0 }))
    );
}

fn check_verdict(expected: &Verdict, standing: Standing, found: &Survey) {
    match (expected, standing) {
        (Verdict::Feasible { total, .. }, Standing::Feasible { total: got }) => {
            assert_eq!(*total, i64::from(got));
        }
        (Verdict::Rejected { plugin, code, reasons }, Standing::Refused(at)) => {
            let got = &found.refusals[at as usize];
            assert_eq!((plugin, code), (&got.plugin, &got.code));
            match &reasons[..] {
                [start] if start.ends_with(OPEN_END) => assert!(got.reasons[0].starts_with(start)),
                _ => assert_eq!(*reasons, got.reasons),
            }
        }
        (expected, standing) => panic!("{standing:?} of {found:?} instead of {expected:?}"),
    }
}

/// Checks evictions of some pods from every node, of lower priority or not.
fn check_evictions(twin: &Twin, pod: &core_v1::Pod, policy: &Policy) {
    let compiled = twin.engine.compile_pod(pod).unwrap();
    let mut proposals: Vec<(&str, Vec<Arc<NaivePod>>)> = Vec::new();
    // Few nodes, because a dry run of the naive scheduler copies the counts of the whole cluster.
    let nodes = twin.naive.nodes.iter().enumerate();
    for (i, (name, node)) in nodes.skip(twin.n_pods % 7).take(MAX_NODES) {
        let lower = |other: &&Arc<NaivePod>| is_lower(&other.pod, pod);
        proposals.push((name, node.pods.iter().filter(lower).cloned().collect()));
        let some = node.pods.iter().enumerate().filter(|(at, _)| (at + i + twin.n_pods) % 3 < 2);
        let some: Vec<Arc<NaivePod>> = some.map(|(_, other)| other.clone()).collect();
        proposals.push((name, some.iter().filter(lower).cloned().collect()));
        proposals.push((name, some));
    }
    let queried: Vec<Proposal<'_>> = proposals
        .iter()
        .map(|(node, victims)| Proposal {
            node,
            victims: victims.iter().map(|victim| uid(&victim.pod)).collect(),
        })
        .collect();
    let found = match twin.engine.check_evictions(&compiled, policy, &queried) {
        Ok(found) => found,
        Err(EngineError::SchedulerError { .. }) => {
            let names: Vec<String> = twin.naive.nodes.keys().cloned().collect();
            assert!(survey(&twin.naive, policy.spec(), pod, &names).is_err());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(found.len(), queried.len());
    for ((name, victims), found) in proposals.iter().zip(found) {
        let node = &twin.naive.nodes[*name];
        let expected = if victims.is_empty() {
            ProposalOutcome::NoVictims
        } else if let Some(at) = victims.iter().position(|other| !is_lower(&other.pod, pod)) {
            ProposalOutcome::TooImportant(at)
        } else {
            match helps(&twin.naive, policy.spec(), pod, node, victims) {
                Ok(true) => ProposalOutcome::Helps,
                Ok(false) => ProposalOutcome::NoHelp,
                Err(_) => panic!("the engine found {found:?}"),
            }
        };
        assert_eq!(found, expected, "{name} without {}", victims.len());
    }
    let uids: BTreeSet<&str> = queried.iter().flat_map(|p| p.victims.iter().copied()).collect();
    let elsewhere = proposals.first().zip(uids.first()).map(|((node, _), _)| *node);
    let unknown = ["ghost"].into_iter().map(|node| (node, ProposalOutcome::UnknownNode));
    let unknown = unknown.chain(elsewhere.map(|node| (node, ProposalOutcome::UnknownVictim(0))));
    for (node, expected) in unknown {
        let victims = vec!["nobody"];
        let found = twin.engine.check_evictions(&compiled, policy, &[Proposal { node, victims }]);
        assert_eq!(found.unwrap(), [expected]);
    }
}
