//! Commits: either all decisions of a session take effect, if what they depend on still holds, or none does.

use berth_engine::{Cluster, CommitError, Delta, Outcome, PlaceRequest, Policy, TieBreak, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

use super::probes;
use super::work::{Done, Work, decision, delta, do_all};
use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::view::View;

/// Returns the pods that a fork placed, in this order, with their nodes.
fn placed(works: &[Work], done: &[Done]) -> Vec<(usize, String)> {
    let mut placed = Vec::new();
    for (work, outcomes) in works.iter().zip(done) {
        let first = match work {
            Work::Assume { pod } => *pod,
            Work::Batch { first, .. } => *first,
            _ => continue,
        };
        let mut of_work: Vec<(usize, String)> = Vec::new();
        for (i, outcome) in outcomes.iter().enumerate() {
            if let Ok(Outcome::Placed(placement)) = outcome
                && placement.assumed
            {
                of_work.push((first + i, placement.node.to_string()));
            }
        }
        placed.extend(of_work);
    }
    placed
}

proptest! {
    #![proptest_config(config(150, 62))]

    /// If the cluster did not change, a commit makes it equal to the session, in one generation, and only once.
    #[test]
    fn an_undisturbed_session_is_committed(
        crowd in crowd(Company::Any, 1..7, 2..20),
        works in vec(decision(), 1..8),
    ) {
        let live = crowd.cluster();
        let fork = live.fork();
        let done = do_all(&fork, &crowd, &works);
        let (mut expected, before) = (View::of(&fork, &probes(&crowd)), live.snapshot());
        let committed = live.commit(&fork).unwrap();
        prop_assert_eq!(committed.generation.get(), before.generation().get() + 1);
        prop_assert_eq!(committed.generation, live.snapshot().generation());
        prop_assert_eq!(committed.n_assumed, placed(&works, &done).len());
        let after = View::of(&live, &probes(&crowd));
        // A pod that was nominated and lost its nomination is pending only in the session.
        prop_assert!(after.n_pending <= expected.n_pending);
        expected.n_pending = after.n_pending;
        prop_assert_eq!(expected, after);
        prop_assert_eq!(live.commit(&fork), Err(CommitError::AlreadyCommitted));
    }

    /// If the cluster changed in the meantime, either every decision still holds there, or nothing is committed.
    #[test]
    fn a_disturbed_session_is_committed_only_if_it_holds(
        crowd in crowd(Company::Any, 2..7, 0..14),
        works in vec(decision(), 1..5),
        meanwhile in vec(prop_oneof![2 => delta(), 1 => decision()], 0..3),
    ) {
        let (live, replica) = (crowd.cluster(), crowd.cluster());
        let fork = live.fork();
        let done = do_all(&fork, &crowd, &works);
        do_all(&live, &crowd, &meanwhile);
        do_all(&replica, &crowd, &meanwhile);
        let before = View::of(&live, &probes(&crowd));
        match live.commit(&fork) {
            Ok(committed) => {
                let placed = placed(&works, &done);
                prop_assert_eq!(committed.n_assumed, placed.len());
                check_holds(&crowd, &replica, &live, &works, placed)?;
            }
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                prop_assert_eq!(before, View::of(&live, &probes(&crowd)));
                let again = live.commit(&fork);
                prop_assert_eq!(again, Err(error), "the same refusal as long as nothing changes");
            }
        }
    }

    /// Hypothetical deltas, and decisions that depend on them, are never committed.
    #[test]
    fn suppositions_stay_suppositions(
        crowd in crowd(Company::Any, 2..7, 2..16),
        works in vec(prop_oneof![1 => delta(), 2 => decision()], 1..8),
    ) {
        let (live, replica) = (crowd.cluster(), crowd.cluster());
        let fork = live.fork();
        let done = do_all(&fork, &crowd, &works);
        let before = View::of(&live, &probes(&crowd));
        match live.commit(&fork) {
            Ok(_) => {
                let after = View::of(&live, &[]);
                let are_kept = before.pods.iter().all(|pod| after.pods.contains(pod));
                prop_assert!(are_kept, "nobody leaves by a supposition");
                let decided = placed(&works, &done);
                let assumed = after.pods.iter().filter(|pod| !before.pods.contains(pod));
                let kept: Vec<(usize, String)> = assumed.map(|(key, _, node, is_assumed)| {
                    assert!(is_assumed, "{key} came by a supposition");
                    let number: usize = key.name.strip_prefix("pod-").unwrap().parse().unwrap();
                    (number - 10_000, node.clone())
                }).collect();
                let in_order = decided.into_iter().filter(|placed| kept.contains(placed)).collect();
                check_holds(&crowd, &replica, &live, &works, in_order)?;
            }
            Err(CommitError::Hypothetical { .. }) => {
                prop_assert_eq!(before, View::of(&live, &probes(&crowd)));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Checks that each pod, one after another, fits on its node in a cluster with the same changes as the live one.
fn check_holds(
    crowd: &Crowd,
    replica: &Cluster,
    live: &Cluster,
    works: &[Work],
    placed: Vec<(usize, String)>,
) -> Result<(), TestCaseError> {
    let after = View::of(live, &[]);
    // Nominations of the session count for later placements; the replica does not have them.
    let promises = works.iter().any(|work| match work {
        Work::Nominate { .. } => true,
        Work::Batch { gang, .. } => gang.is_some(),
        _ => false,
    });
    for (number, node) in placed {
        let pod = &crowd.incoming(replica, number);
        prop_assert_eq!(after.node_of(pod.key()), Some(&*node));
        let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
        let explained =
            replica.explain(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap();
        let verdict = explained.nodes.iter().find(|verdict| *verdict.node == *node);
        let fits = matches!(verdict.map(|found| &found.verdict), Some(Verdict::Feasible { .. }));
        prop_assert!(fits || promises, "{} does not fit onto {node}: {verdict:?}", pod.key());
        let mut wire = crowd.incoming_wire(number);
        wire.spec.get_or_insert_default().node_name = node;
        let bound = replica.compile_pod(&wire).unwrap();
        prop_assert_eq!(replica.apply(vec![Delta::UpsertPod(bound)]).rejected, vec![]);
    }
    Ok(())
}
