//! Batches in clusters with nominations, compared with the naive scheduler: pods are decided in order of priority, and
//! a nominated pod may be a member of the batch (S-Q-4, S-CYC-3, S-NOM-1).

use std::cmp::Reverse;

use berth_engine::{BatchRequest, Cluster, Decision, EngineError, Outcome, Pod, Policy, TieBreak};
use berth_proto::core_v1;
use proptest::prelude::*;

use super::outcome;
use crate::naive::attempt::{Attempt, attempt};
use crate::naive::pod;
use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};

/// Returns the pending pods, nominated by their status or in the cluster's memory, among incoming pods.
fn members(crowd: &Crowd) -> Vec<core_v1::Pod> {
    let waiting = crowd.waiting.iter().enumerate().map(|(i, waiting)| {
        let mut wire = waiting.0.clone();
        if i % 2 == 1 {
            wire.status.get_or_insert_default().nominated_node_name.clear();
        }
        wire
    });
    let coming: Vec<core_v1::Pod> = (0..10).map(|i| crowd.incoming_wire(i)).collect();
    coming[..5].iter().cloned().chain(waiting).chain(coming[5..].iter().cloned()).collect()
}

fn place(
    cluster: &Cluster,
    wires: &[core_v1::Pod],
    assume: bool,
) -> Vec<Result<Outcome, EngineError>> {
    let pods: Vec<Pod> = wires.iter().map(|wire| cluster.compile_pod(wire).unwrap()).collect();
    let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(8));
    let (pods, cancelled) = (&pods[..], &|| false);
    let request =
        BatchRequest { pods, policy, tie_break, assume, gang: None, cancelled, now: None };
    let results: Vec<Result<Decision, EngineError>> = cluster.place_batch(&request).results;
    results.into_iter().map(outcome).collect()
}

proptest! {
    #![proptest_config(config(150, 15))]

    #[test]
    fn a_batch_among_nominations(crowd in crowd(Company::Related, 1..7, 0..16)) {
        let (cluster, mut naive) = (crowd.cluster(), crowd.naive());
        let wires = members(&crowd);
        let planned = place(&cluster, &wires, false);
        let results = place(&cluster, &wires, true);
        prop_assert_eq!(&planned, &results);
        let mut order: Vec<usize> = (0..wires.len()).collect();
        order.sort_by_key(|i| Reverse(pod::priority(&wires[*i])));
        for i in order {
            let spec = Policy::default().spec().clone();
            match (attempt(&naive, &spec, &wires[i]), &results[i]) {
                (Attempt::Error, Err(EngineError::SchedulerError { .. })) => {}
                (Attempt::Refused { .. }, Ok(Outcome::Unschedulable(_))) => {}
                (Attempt::Decided(account), Ok(Outcome::Unschedulable(found))) => {
                    prop_assert_eq!(&account.message, &found.message);
                }
                (Attempt::Decided(account), Ok(Outcome::Placed(placement))) => {
                    prop_assert!(account.best.contains(&placement.node), "{placement:?} of {:?}", account.best);
                    prop_assert_eq!((account.n_feasible, account.total), (placement.n_feasible, placement.total));
                    let mut placed = wires[i].clone();
                    placed.spec.get_or_insert_default().node_name = placement.node.to_string();
                    naive.add_pod(&placed);
                    naive.refresh();
                }
                (expected, found) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
