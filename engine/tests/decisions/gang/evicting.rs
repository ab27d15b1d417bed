//! Gangs that evict: which pods are victims, and that members get their nominated nodes after the eviction.

use berth_engine::{
    Cluster, Delta, Gang, Outcome, PlaceRequest, Pod, PodKey, Policy, PreemptOptions, TieBreak,
};
use proptest::prelude::*;

use super::{Ask, asks, compiled, place, pods, small_cluster};
use crate::random::config;
use crate::random::crowd::{Company, crowd};

fn evict(cluster: &Cluster, victims: &[PodKey]) {
    let deltas = victims.iter().map(|key| Delta::DeletePod { key: key.clone(), uid: None });
    assert_eq!(cluster.apply(deltas.collect()).rejected, []);
}

fn assume(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
    match cluster.assume(&PlaceRequest { pod, policy, tie_break, now: None }).unwrap().outcome {
        Outcome::Placed(placement) => Some(placement.node.to_string()),
        Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
    }
}

proptest! {
    #![proptest_config(config(200, 52))]

    /// No victim is a member or has the priority of the preempting member or a higher one, and each is evicted once;
    /// without the victims every nominated member gets its node.
    #[test]
    fn promises_are_kept(crowd in crowd(Company::Plain, 1..6, 4..25), ask in asks()) {
        let cluster = crowd.cluster();
        let ask = Ask { evicts: true, ..ask };
        let members = compiled(&cluster, &ask.members(&crowd));
        let outcome = place(&cluster, &members, Some(ask.gang()), true);
        let gang = outcome.gang.unwrap();
        let mut victims: Vec<PodKey> = Vec::new();
        for preemption in &gang.preemptions {
            let member = &members[preemption.index];
            let chosen = preemption.post_filter.chosen.as_ref().unwrap();
            for victim in &chosen.victims {
                prop_assert!(victim.priority < member.priority());
                prop_assert!(members.iter().all(|member| *member.key() != victim.pod));
                prop_assert!(!victims.contains(&victim.pod), "{} is evicted twice", victim.pod);
                victims.push(victim.pod.clone());
            }
            let decision = outcome.results[preemption.index].as_ref().unwrap();
            let Outcome::Placed(placement) = &decision.outcome else { panic!("{decision:?}") };
            prop_assert_eq!((&placement.node, placement.assumed), (&chosen.node, false));
        }
        if !gang.placed {
            return Ok(());
        }
        evict(&cluster, &victims);
        let mut promised: Vec<(&Pod, &str)> = members.iter().zip(&outcome.results).filter_map(|(pod, result)| {
            match &result.as_ref().ok()?.outcome {
                Outcome::Placed(placement) if !placement.assumed => Some((pod, &*placement.node)),
                _ => None,
            }
        }).collect();
        promised.sort_by_key(|(pod, _)| std::cmp::Reverse(pod.priority()));
        for (pod, node) in promised {
            prop_assert_eq!(assume(&cluster, pod), Some(node.to_owned()), "{}", pod.key());
        }
    }
}

/// Two members need a node each: one node is free, and pods of lower priority use the other.
#[test]
fn room_is_made_for_those_that_need_it() {
    let nodes = ["n1 cpu=2 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"];
    let victims = ["v node=n2 cpu=1 priority=1 started=5", "w node=n2 cpu=1 priority=1 started=6"];
    let cluster = small_cluster(&nodes, &victims);
    let members = pods(&cluster, &["a cpu=2 priority=9", "b cpu=2 priority=9"]);
    let refused = place(&cluster, &members, Some(Gang::default()), true);
    assert!(!refused.gang.unwrap().placed);
    assert_eq!((cluster.snapshot().n_pods(), cluster.snapshot().n_pending()), (2, 0));
    let gang = Gang { min_count: 0, preempt: Some(PreemptOptions::default()) };
    let outcome = place(&cluster, &members, Some(gang), true);
    let gang = outcome.gang.unwrap();
    assert!(gang.placed);
    assert_eq!(gang.preemptions.len(), 1);
    assert_eq!(gang.preemptions[0].index, 1);
    let chosen = gang.preemptions[0].post_filter.chosen.as_ref().unwrap();
    let names: Vec<&str> = chosen.victims.iter().map(|victim| &*victim.pod.name).collect();
    assert_eq!((&*chosen.node, names), ("n2", vec!["v", "w"]));
    assert_eq!((cluster.snapshot().n_pods(), cluster.snapshot().n_pending()), (3, 1));
    // Victims use their room until they are deleted; after that the nomination reserves it.
    let rival = &pods(&cluster, &["rival cpu=1 priority=9"])[0];
    assert_eq!(assume(&cluster, rival), None);
    evict(&cluster, &[PodKey::new("default", "v"), PodKey::new("default", "w")]);
    assert_eq!(assume(&cluster, rival), None);
    assert_eq!(assume(&cluster, &members[1]).as_deref(), Some("n2"));
}

/// A member does not evict another member, and no pod is evicted for a gang that is not placed.
#[test]
fn members_do_not_evict_each_other() {
    let cluster = small_cluster(&["n1 cpu=2 memory=8Gi pods=9"], &["v node=n1 cpu=1 priority=1"]);
    let members =
        pods(&cluster, &["a cpu=1 priority=5", "b cpu=1 priority=5", "c cpu=1 priority=9"]);
    let gang = Gang { min_count: 0, preempt: Some(PreemptOptions::default()) };
    let outcome = place(&cluster, &members, Some(gang), true);
    let gang = outcome.gang.unwrap();
    assert_eq!((gang.placed, gang.n_placed, gang.preemptions.len()), (false, 2, 0));
    assert_eq!((cluster.snapshot().n_pods(), cluster.snapshot().n_pending()), (1, 0));
}
