//! Sessions: forks on which changes are tried without effect on the cluster, until the result is committed or
//! discarded.

mod commit;
mod ground;
mod work;

use berth_engine::{Cluster, CommitError};
use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::random::importance::urgent;
use crate::view::View;
use work::{Work, do_all, work};

/// Returns pods that are decided to detect changes.
fn probes(crowd: &Crowd) -> Vec<core_v1::Pod> {
    let wires = |i| [crowd.incoming_wire(i), urgent(crowd.incoming_wire(i))];
    (0..crowd.incoming.len()).flat_map(wires).collect()
}

proptest! {
    #![proptest_config(config(150, 61))]

    /// Work on a fork, and on forks of it, changes neither the cluster nor its answers.
    #[test]
    fn a_session_never_leaks(
        crowd in crowd(Company::Any, 1..7, 2..20),
        works in vec(work(), 1..12),
        nested in vec(work(), 0..8),
    ) {
        let live = crowd.cluster();
        let (before, generation) = (View::of(&live, &probes(&crowd)), live.snapshot().generation());
        let fork = live.fork();
        do_all(&fork, &crowd, &works);
        let (of_fork, of_nested) = (View::of(&fork, &probes(&crowd)), fork.fork());
        do_all(&of_nested, &crowd, &nested);
        prop_assert_eq!(of_fork, View::of(&fork, &probes(&crowd)));
        prop_assert_eq!(generation, live.snapshot().generation());
        prop_assert_eq!(&before, &View::of(&live, &probes(&crowd)));
        drop((fork, of_nested));
        prop_assert_eq!(before, View::of(&live, &probes(&crowd)));
    }

    /// Changes of the cluster have no effect on its forks.
    #[test]
    fn a_session_sees_nothing_of_what_comes_after(
        crowd in crowd(Company::Any, 1..7, 2..20),
        first in vec(work(), 0..4),
        works in vec(work(), 1..12),
    ) {
        let live = crowd.cluster();
        let fork = live.fork();
        do_all(&fork, &crowd, &first);
        let before = View::of(&fork, &probes(&crowd));
        do_all(&live, &crowd, &works);
        prop_assert_eq!(before, View::of(&fork, &probes(&crowd)));
    }

    /// A fork gives the results that a cluster gives for equal work, whatever evaluations the cluster has cached.
    #[test]
    fn a_session_is_a_cluster(
        crowd in crowd(Company::Any, 1..7, 2..20),
        first in vec(work(), 0..4),
        works in vec(work(), 1..12),
    ) {
        let (live, other) = (crowd.cluster(), crowd.cluster());
        prop_assert_eq!(do_all(&live, &crowd, &first), do_all(&other, &crowd, &first));
        let fork = live.fork();
        prop_assert_eq!(View::of(&fork, &probes(&crowd)), View::of(&other, &probes(&crowd)));
        prop_assert_eq!(do_all(&fork, &crowd, &works), do_all(&other, &crowd, &works));
        prop_assert_eq!(View::of(&fork, &probes(&crowd)), View::of(&other, &probes(&crowd)));
    }

    /// Forks of one cluster see nothing of each other.
    #[test]
    fn sessions_are_apart(
        crowd in crowd(Company::Any, 1..7, 2..20),
        works in vec((any::<bool>(), work()), 1..16),
    ) {
        let live = crowd.cluster();
        let forks = [live.fork(), live.fork()];
        for (which, work) in &works {
            do_all(&forks[usize::from(*which)], &crowd, std::slice::from_ref(work));
        }
        for (i, fork) in forks.iter().enumerate() {
            let own: Vec<Work> =
                works.iter().filter(|(which, _)| usize::from(*which) == i).map(|(_, work)| work.clone()).collect();
            let alone: Cluster = crowd.cluster();
            do_all(&alone, &crowd, &own);
            prop_assert_eq!(View::of(fork, &probes(&crowd)), View::of(&alone, &probes(&crowd)));
        }
    }
}

/// Some sessions are committed and some are refused; otherwise the tests above would prove nothing.
#[test]
fn sessions_are_disturbed() {
    let mut runner = TestRunner::new(config(1, 64));
    let (mut n_committed, mut n_changed, mut n_supposed) = (0, 0, 0);
    for i in 0..150 {
        let crowd = crowd(Company::Any, 2..7, 0..14).new_tree(&mut runner).unwrap().current();
        let draw = |strategy: BoxedStrategy<Work>, runner: &mut TestRunner| {
            vec(strategy, 1..4).new_tree(runner).unwrap().current()
        };
        let live = crowd.cluster();
        let fork = live.fork();
        do_all(&fork, &crowd, &draw(work::decision(), &mut runner));
        do_all(if i % 3 == 0 { &fork } else { &live }, &crowd, &draw(work::delta(), &mut runner));
        do_all(&fork, &crowd, &draw(work::decision(), &mut runner));
        match live.commit(&fork) {
            Ok(committed) => n_committed += committed.n_assumed,
            Err(CommitError::Changed { .. }) => n_changed += 1,
            Err(CommitError::Hypothetical { .. }) => n_supposed += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let counts = [n_committed, n_changed, n_supposed];
    assert!(counts.iter().all(|n| *n >= 10), "{counts:?}");
}
