//! The options that report where victims could go, and that prefer victims with a place: compared with actual
//! placements, one victim after another.

use berth_engine::{
    Candidate, Cluster, Delta, Elsewhere, Outcome, PlaceRequest, Pod, Policy, PreemptOptions,
    TieBreak, VictimPlacement,
};
use proptest::prelude::*;

use super::{incoming, list, victims};
use crate::random;
use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};

/// Computes where each victim of a candidate could go, once the victims are evicted and the preemptor is placed.
fn expected(crowd: &Crowd, pod: &Pod, candidate: &Candidate) -> Vec<Elsewhere> {
    let cluster = crowd.cluster_without(&victims(candidate));
    let mut wire = preemptor(crowd, pod);
    wire.spec.get_or_insert_default().node_name = candidate.node.to_string();
    let preemptor = Delta::UpsertPod(cluster.compile_pod(&wire).unwrap());
    assert_eq!(cluster.apply(vec![preemptor]).rejected, []);
    candidate.victims.iter().map(|victim| place(crowd, &cluster, &victim.pod.name)).collect()
}

fn preemptor(crowd: &Crowd, pod: &Pod) -> berth_proto::core_v1::Pod {
    let number: usize = pod.key().name.strip_prefix("pod-").unwrap().parse().unwrap();
    let mut wire = crowd.incoming_wire(number - 10_000);
    wire.spec.get_or_insert_default().priority = Some(pod.priority());
    wire
}

fn place(crowd: &Crowd, cluster: &Cluster, name: &str) -> Elsewhere {
    let is_meant = |pod: &&random::Json<berth_proto::core_v1::Pod>| {
        pod.0.metadata.as_ref().is_some_and(|metadata| metadata.name == name)
    };
    let mut wire = crowd.placed.iter().find(is_meant).unwrap().0.clone();
    wire.spec.get_or_insert_default().node_name.clear();
    let pod = cluster.compile_pod(&wire).unwrap();
    let (policy, tie_break) = (&Policy::default(), TieBreak::Lexicographic);
    match cluster.assume(&PlaceRequest { pod: &pod, policy, tie_break, now: None }) {
        Ok(decision) => match decision.outcome {
            Outcome::Placed(placement) => Elsewhere::Node(placement.node),
            Outcome::Unschedulable(unschedulable) => Elsewhere::Nowhere(unschedulable.message),
            Outcome::Gated { reasons, .. } => Elsewhere::Nowhere(reasons.join(", ")),
        },
        Err(error) => Elsewhere::Nowhere(error.to_string()),
    }
}

fn destinations(candidate: &Candidate) -> Vec<Elsewhere> {
    candidate.victims.iter().map(|victim| victim.elsewhere.clone().unwrap()).collect()
}

fn n_homeless(places: &[Elsewhere]) -> usize {
    places.iter().filter(|place| matches!(place, Elsewhere::Nowhere(_))).count()
}

proptest! {
    #![proptest_config(config(80, 45))]

    /// Reporting adds only the places of the chosen candidate's victims and changes nothing else.
    #[test]
    fn reported(crowd in crowd(Company::Related, 2..7, 6..25)) {
        let cluster = crowd.cluster();
        let options =
            PreemptOptions { victim_placement: VictimPlacement::Report, ..PreemptOptions::default() };
        for pod in incoming(&crowd, &cluster) {
            let (Some(plain), Some(mut reported)) =
                (list(&cluster, &pod, PreemptOptions::default()), list(&cluster, &pod, options))
            else {
                continue;
            };
            if let Some(chosen) = reported.preemption.post_filter.as_mut().and_then(|found| found.chosen.as_mut()) {
                prop_assert_eq!(destinations(chosen), expected(&crowd, &pod, chosen));
                chosen.victims.iter_mut().for_each(|victim| victim.elsewhere = None);
            }
            prop_assert_eq!(plain, reported);
        }
    }

    /// Among the candidates with the fewest violations, the chosen one leaves the fewest victims without a place.
    #[test]
    fn preferred(crowd in crowd(Company::Related, 2..7, 6..25)) {
        let cluster = crowd.cluster();
        let options =
            PreemptOptions { victim_placement: VictimPlacement::Prefer, ..PreemptOptions::default() };
        for pod in incoming(&crowd, &cluster) {
            let Some(list) = list(&cluster, &pod, options) else { continue };
            let Some(chosen) = list.preemption.post_filter.and_then(|found| found.chosen) else { continue };
            let fewest = list.candidates.iter().map(|c| c.n_pdb_violations).min().unwrap();
            prop_assert_eq!(chosen.n_pdb_violations, fewest);
            let least = list.candidates.iter().filter(|c| c.n_pdb_violations == fewest);
            let least = least.map(|c| n_homeless(&expected(&crowd, &pod, c))).min().unwrap();
            prop_assert_eq!(n_homeless(&destinations(&chosen)), least);
        }
    }
}
