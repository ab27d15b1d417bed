//! Properties of every eviction, checked without the naive scheduler: it makes room, every victim has lower priority,
//! and every victim is necessary. The options of preemption are tested here too.

mod elsewhere;
mod option;

use berth_engine::{
    Candidate, CandidateList, Cluster, Delta, Outcome, PlaceRequest, Pod, PodKey, Policy,
    PreemptOptions, PreemptRequest, TieBreak, Verdict,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::random::importance::urgent;

fn list(cluster: &Cluster, pod: &Pod, options: PreemptOptions) -> Option<CandidateList> {
    let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(3));
    let list = cluster
        .list_candidates(&PreemptRequest {
            pod,
            policy,
            tie_break,
            options,
            cancelled: &|| false,
            now: None,
        })
        .ok()?;
    let preemption = cluster.preempt(&PreemptRequest {
        pod,
        policy,
        tie_break,
        options,
        cancelled: &|| false,
        now: None,
    });
    assert_eq!(list.preemption, preemption.unwrap());
    Some(list)
}

/// Returns the incoming pods, each as it is and with a high priority.
fn incoming(crowd: &Crowd, cluster: &Cluster) -> Vec<Pod> {
    let of = |i: usize| {
        let pod = crowd.incoming_wire(i);
        let urgent = urgent(pod.clone());
        [pod, urgent].map(|pod| cluster.compile_pod(&pod).unwrap())
    };
    (0..crowd.incoming.len()).flat_map(of).collect()
}

fn victims(candidate: &Candidate) -> Vec<PodKey> {
    candidate.victims.iter().map(|victim| victim.pod.clone()).collect()
}

/// Whether the pod fits on the node in a cluster that was built without the pods of `gone`.
fn fits(crowd: &Crowd, gone: &[PodKey], pod: &Pod, node: &str) -> bool {
    let cluster = crowd.cluster_without(gone);
    let pod = pod_in(&cluster, crowd, pod);
    let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
    let explained =
        cluster.explain(&PlaceRequest { pod: &pod, policy, tie_break, now: None }).unwrap();
    let verdict = explained.nodes.iter().find(|verdict| &*verdict.node == node);
    matches!(verdict.map(|found| &found.verdict), Some(Verdict::Feasible { .. }))
}

/// Compiles the pod for this cluster; a compiled pod belongs to the cluster that compiled it.
fn pod_in(cluster: &Cluster, crowd: &Crowd, pod: &Pod) -> Pod {
    let number: usize = pod.key().name.strip_prefix("pod-").unwrap().parse().unwrap();
    let wire = crowd.incoming_wire(number - 10_000);
    let plain = cluster.compile_pod(&wire).unwrap();
    if plain.priority() == pod.priority() {
        plain
    } else {
        cluster.compile_pod(&urgent(wire)).unwrap()
    }
}

proptest! {
    #![proptest_config(config(120, 41))]

    /// On every candidate all victims have a lower priority than the preemptor (S-PRE-8), none is named twice, and the
    /// pod fits in a cluster that never had them (S-PRE-14).
    #[test]
    fn victims_are_lesser_pods_and_make_room(crowd in crowd(Company::Related, 1..7, 4..30)) {
        let cluster = crowd.cluster();
        for pod in incoming(&crowd, &cluster) {
            let Some(list) = list(&cluster, &pod, PreemptOptions::default()) else { continue };
            for candidate in &list.candidates {
                prop_assert!(candidate.victims.iter().all(|victim| victim.priority < pod.priority()));
                let gone = victims(candidate);
                prop_assert!(gone.iter().enumerate().all(|(i, key)| !gone[..i].contains(key)));
                prop_assert!(
                    fits(&crowd, &gone, &pod, &candidate.node),
                    "{:?} does not fit without {candidate:?}", pod.key()
                );
            }
        }
    }

    /// A preemptor is nominated to the node and gets it once the victims are deleted (S-PRE-21, S-PRE-26).
    #[test]
    fn the_preemptor_gets_its_node(crowd in crowd(Company::Related, 1..7, 4..30)) {
        for i in 0..crowd.incoming.len() {
            let cluster = crowd.cluster();
            let pod = cluster.compile_pod(&urgent(crowd.incoming_wire(i))).unwrap();
            let Some(list) = list(&cluster, &pod, PreemptOptions::default()) else { continue };
            let Some(post_filter) = list.preemption.post_filter else { continue };
            let Some(chosen) = &post_filter.chosen else { continue };
            cluster.nominate(&pod, &post_filter).unwrap();
            let gone = victims(chosen).into_iter().map(|key| Delta::DeletePod { key, uid: None });
            prop_assert_eq!(cluster.apply(gone.collect()).rejected, vec![]);
            let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(1));
            let decision = cluster.assume(&PlaceRequest { pod: &pod, policy, tie_break, now: None }).unwrap();
            let Outcome::Placed(placement) = &decision.outcome else { panic!("{decision:?}") };
            prop_assert_eq!(&placement.node, &chosen.node);
            prop_assert_eq!((placement.total, placement.n_feasible), (None, 1));
        }
    }

    /// On a node that is no candidate, evicting all pods that may be evicted does not make the pod fit (S-PRE-9).
    #[test]
    fn eviction_cannot_help_other_nodes(crowd in crowd(Company::Related, 1..6, 4..30)) {
        let cluster = crowd.cluster();
        for pod in incoming(&crowd, &cluster) {
            let Some(list) = list(&cluster, &pod, PreemptOptions::default()) else { continue };
            for node in &list.not_helped {
                let pods = cluster.snapshot().pods();
                let lower = pods.iter().filter(|view| view.node == node.node && view.pod.priority() < pod.priority());
                let lower: Vec<PodKey> = lower.map(|view| view.pod.key().clone()).collect();
                prop_assert!(!fits(&crowd, &lower, &pod, &node.node), "{node:?} without {lower:?}");
            }
        }
    }

    /// Queries change nothing: the cluster stays the same, and later queries get the same answers.
    #[test]
    fn asking_changes_nothing(crowd in crowd(Company::Any, 1..7, 4..30)) {
        let (queried, other) = (crowd.cluster(), crowd.cluster());
        let before = queried.snapshot();
        for pod in incoming(&crowd, &queried) {
            list(&queried, &pod, PreemptOptions::default());
        }
        let after = queried.snapshot();
        prop_assert_eq!(after.generation(), before.generation());
        prop_assert_eq!(after.nodes(), before.nodes());
        let place = |cluster: &Cluster| {
            let pods = crowd.all_incoming(cluster, 12);
            let outcomes = pods.iter().map(|pod| {
                let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
                let decision = cluster.assume(&PlaceRequest { pod, policy, tie_break, now: None });
                decision.map(|decision| decision.outcome)
            });
            outcomes.collect::<Vec<_>>()
        };
        prop_assert_eq!(place(&queried), place(&other));
    }
}

proptest! {
    #![proptest_config(config(50, 46))]

    /// Where only resources, ports and counts decide, each victim is necessary: with it the pod does not fit
    /// (S-PRE-14).
    #[test]
    fn no_victim_could_be_spared(crowd in crowd(Company::Plain, 1..6, 4..30)) {
        let cluster = crowd.cluster();
        for pod in incoming(&crowd, &cluster) {
            let Some(list) = list(&cluster, &pod, PreemptOptions::default()) else { continue };
            for candidate in &list.candidates {
                let gone = victims(candidate);
                for spared in &gone {
                    let others: Vec<PodKey> = gone.iter().filter(|key| *key != spared).cloned().collect();
                    prop_assert!(
                        !fits(&crowd, &others, &pod, &candidate.node),
                        "{spared} of {candidate:?} goes for nothing"
                    );
                }
            }
        }
    }
}

/// The random crowds cause evictions; otherwise these tests would prove nothing.
#[test]
fn crowds_call_for_evictions() {
    let mut runner = proptest::test_runner::TestRunner::new(config(1, 42));
    let (mut n_chosen, mut n_several, mut n_tied, mut n_violating) = (0, 0, 0, 0);
    for _ in 0..150 {
        let crowd = crowd(Company::Related, 2..7, 8..30).new_tree(&mut runner).unwrap().current();
        let cluster = crowd.cluster();
        for pod in incoming(&crowd, &cluster) {
            let Some(list) = list(&cluster, &pod, PreemptOptions::default()) else { continue };
            let chosen = list.preemption.post_filter.and_then(|found| found.chosen);
            n_chosen += usize::from(chosen.is_some());
            n_several += usize::from(chosen.is_some_and(|chosen| chosen.victims.len() > 1));
            n_tied += usize::from(list.best.len() > 1);
            n_violating += list.candidates.iter().filter(|c| c.n_pdb_violations > 0).count();
        }
    }
    let counts = [n_chosen, n_several, n_tied, n_violating];
    assert!(counts.iter().zip([200, 50, 20, 20]).all(|(n, least)| *n >= least), "{counts:?}");
}
