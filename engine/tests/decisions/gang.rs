//! Gangs: enough members get a node, or the cluster stays as it was.

mod evicting;

use std::cell::Cell;

use berth_engine::{
    BatchOutcome, BatchRequest, Cluster, Decision, Delta, EngineError, Gang, Outcome, PlaceRequest,
    Pod, Policy, PreemptOptions, TieBreak,
};
use berth_proto::core_v1;
use berth_testing::object;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::random::importance::urgent;
use crate::view::View;

/// Parameters of a gang request.
#[derive(Copy, Clone, Debug)]
struct Ask {
    n: usize,
    min_count: usize,
    evicts: bool,
    is_urgent: bool,
}

fn asks() -> impl Strategy<Value = Ask> {
    (1..9_usize, 0..6_usize, any::<bool>(), any::<bool>()).prop_map(
        |(n, min_count, evicts, is_urgent)| Ask {
            n,
            min_count: min_count.min(n),
            evicts,
            is_urgent,
        },
    )
}

impl Ask {
    fn members(&self, crowd: &Crowd) -> Vec<core_v1::Pod> {
        let wire = |i| crowd.incoming_wire(i);
        (0..self.n).map(|i| if self.is_urgent { urgent(wire(i)) } else { wire(i) }).collect()
    }

    fn gang(&self) -> Gang {
        let preempt = self.evicts.then(PreemptOptions::default);
        Gang { min_count: self.min_count, preempt }
    }

    fn needed(&self) -> usize {
        if self.min_count == 0 { self.n } else { self.min_count }
    }
}

fn compiled(cluster: &Cluster, pods: &[core_v1::Pod]) -> Vec<Pod> {
    pods.iter().map(|pod| cluster.compile_pod(pod).unwrap()).collect()
}

fn place(cluster: &Cluster, pods: &[Pod], gang: Option<Gang>, assume: bool) -> BatchOutcome {
    let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(2));
    cluster.place_batch(&BatchRequest {
        pods,
        policy,
        tie_break,
        assume,
        gang,
        cancelled: &|| false,
        now: None,
    })
}

/// Returns the outcomes of decisions without their generations and the mark of an assumed pod.
fn outcomes(results: &[Result<Decision, EngineError>]) -> Vec<Result<Outcome, EngineError>> {
    let of = |decision: &Decision| {
        let mut outcome = decision.outcome.clone();
        if let Outcome::Placed(placement) = &mut outcome {
            (placement.assumed, placement.stamp) = (false, None);
        }
        outcome
    };
    results.iter().map(|result| result.as_ref().map(of).map_err(Clone::clone)).collect()
}

fn n_placed(results: &[Result<Decision, EngineError>]) -> usize {
    let is_placed =
        |result: &&Result<Outcome, EngineError>| matches!(result, Ok(Outcome::Placed(_)));
    outcomes(results).iter().filter(is_placed).count()
}

proptest! {
    #![proptest_config(config(150, 51))]

    /// Either enough members get a node and take its room, or the cluster and all its answers are unchanged.
    #[test]
    fn all_or_nothing(crowd in crowd(Company::Any, 1..7, 2..20), ask in asks()) {
        let cluster = crowd.cluster();
        let wires = ask.members(&crowd);
        let (pods, before) = (compiled(&cluster, &wires), View::of(&cluster, &wires));
        let outcome = place(&cluster, &pods, Some(ask.gang()), true);
        let after = View::of(&cluster, &wires);
        let gang = outcome.gang.unwrap();
        prop_assert_eq!(outcome.results.len(), ask.n);
        prop_assert_eq!(gang.n_placed, n_placed(&outcome.results));
        prop_assert_eq!(gang.placed, gang.n_placed >= ask.needed());
        if !gang.placed {
            prop_assert_eq!(before, after);
            prop_assert_eq!(gang.preemptions, []);
            return Ok(());
        }
        let mut n_promised = 0;
        for (pod, result) in pods.iter().zip(&outcome.results) {
            let here = after.node_of(pod.key());
            match result.as_ref().map(|decision| &decision.outcome) {
                Ok(Outcome::Placed(placement)) if placement.assumed => {
                    prop_assert_eq!(here, Some(&*placement.node));
                }
                Ok(Outcome::Placed(_)) => {
                    prop_assert_eq!(here, None);
                    n_promised += 1;
                }
                _ => prop_assert_eq!(here, None),
            }
        }
        prop_assert!(n_promised >= gang.preemptions.len());
        prop_assert_eq!(after.n_pending, before.n_pending + n_promised);
        prop_assert_eq!(after.pods.len(), before.pods.len() + gang.n_placed - n_promised);
        prop_assert!(before.pods.iter().all(|pod| after.pods.contains(pod)), "victims are the caller's to evict");
    }

    /// A dry run of a gang returns the same results as assuming it, and changes nothing.
    #[test]
    fn a_dry_run_returns_what_assuming_does(crowd in crowd(Company::Any, 1..7, 2..20), ask in asks()) {
        let (dry, real) = (crowd.cluster(), crowd.cluster());
        let wires = ask.members(&crowd);
        let before = View::of(&dry, &wires);
        let planned = place(&dry, &compiled(&dry, &wires), Some(ask.gang()), false);
        prop_assert_eq!(before, View::of(&dry, &wires));
        let done = place(&real, &compiled(&real, &wires), Some(ask.gang()), true);
        prop_assert_eq!(planned.gang, done.gang);
        prop_assert_eq!(outcomes(&planned.results), outcomes(&done.results));
        // Evaluations cached by the dry run must not affect later requests.
        let late = place(&dry, &compiled(&dry, &wires), Some(ask.gang()), true);
        prop_assert_eq!(outcomes(&late.results), outcomes(&done.results));
        prop_assert_eq!(View::of(&dry, &wires), View::of(&real, &wires));
    }

    /// Without evictions each member is decided as it would be in an independent batch; if all get a node, placing the
    /// gang equals placing the batch.
    #[test]
    fn a_gang_that_evicts_nobody_is_a_batch(crowd in crowd(Company::Any, 1..7, 0..16), ask in asks()) {
        let (ganged, batched) = (crowd.cluster(), crowd.cluster());
        let wires = Ask { is_urgent: false, ..ask }.members(&crowd);
        let gang = Gang { min_count: ask.min_count, preempt: None };
        let together = place(&ganged, &compiled(&ganged, &wires), Some(gang), true);
        let each = place(&batched, &compiled(&batched, &wires), None, together.gang.as_ref().unwrap().placed);
        prop_assert_eq!(outcomes(&together.results), outcomes(&each.results));
        prop_assert_eq!(View::of(&ganged, &wires), View::of(&batched, &wires));
    }

    /// A request that is cancelled midway leaves nothing behind.
    #[test]
    fn a_cancelled_gang_leaves_nothing(crowd in crowd(Company::Plain, 3..7, 0..6), ask in asks(), after in 0..8_usize) {
        let cluster = crowd.cluster();
        let wires = ask.members(&crowd);
        let (pods, before) = (compiled(&cluster, &wires), View::of(&cluster, &wires));
        let n_asked = Cell::new(0);
        let cancelled = || n_asked.replace(n_asked.get() + 1) >= after;
        let (policy, gang) = (&Policy::default(), Some(Gang { min_count: 1, ..ask.gang() }));
        let tie_break = TieBreak::Lexicographic;
        let request = BatchRequest { pods: &pods, policy, tie_break, assume: true, gang, cancelled: &cancelled, now: None };
        let outcome = cluster.place_batch(&request);
        if n_asked.get() > after {
            prop_assert!(!outcome.gang.unwrap().placed);
            prop_assert_eq!(before, View::of(&cluster, &wires));
        } else {
            prop_assert!(outcome.results.iter().all(|result| *result != Err(EngineError::Cancelled)));
        }
    }
}

/// The random gangs include placed, refused and evicting ones; otherwise these tests would prove nothing.
#[test]
fn crowds_make_gangs_evict() {
    let mut runner = TestRunner::new(config(1, 53));
    let (mut n_placed, mut n_refused, mut n_evictions, mut n_waiting) = (0, 0, 0, 0);
    for _ in 0..150 {
        let crowd = crowd(Company::Any, 1..7, 2..20).new_tree(&mut runner).unwrap().current();
        let ask = asks().new_tree(&mut runner).unwrap().current();
        let cluster = crowd.cluster();
        let pods = compiled(&cluster, &ask.members(&crowd));
        let gang = place(&cluster, &pods, Some(ask.gang()), true).gang.unwrap();
        n_placed += usize::from(gang.placed && gang.n_placed > 1);
        n_refused += usize::from(!gang.placed && gang.n_placed > 0);
        n_evictions += gang.preemptions.len();
        n_waiting += usize::from(gang.preemptions.len() > 1);
    }
    let counts = [n_placed, n_refused, n_evictions, n_waiting];
    assert!(counts.iter().zip([25, 8, 15, 4]).all(|(n, least)| *n >= least), "{counts:?}");
}

fn small_cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes
        .iter()
        .map(|text| Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap()));
    let pods =
        pods.iter().map(|text| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap()));
    assert_eq!(cluster.apply(nodes.chain(pods).collect()).rejected, []);
    cluster
}

fn pods(cluster: &Cluster, texts: &[&str]) -> Vec<Pod> {
    texts.iter().map(|text| cluster.compile_pod(&object::pod(text)).unwrap()).collect()
}

/// Members are decided by priority, then in the order of the request; the results are in the order of the request
/// (S-Q-4).
#[test]
fn members_are_decided_by_priority() {
    let cluster = small_cluster(&["n1 cpu=2 memory=8Gi pods=9"], &[]);
    let members =
        pods(&cluster, &["a cpu=1", "b cpu=1 priority=5", "c cpu=1", "d cpu=1 priority=5"]);
    let gang = Some(Gang { min_count: 2, preempt: None });
    let outcome = place(&cluster, &members, gang, true);
    let is_placed = |result: &Result<Decision, EngineError>| matches!(&result.as_ref().unwrap().outcome, Outcome::Placed(placement) if placement.assumed);
    let placed: Vec<bool> = outcome.results.iter().map(is_placed).collect();
    assert_eq!(placed, [false, true, false, true]);
    assert_eq!(outcome.gang.unwrap().n_placed, 2);
}

/// A member that is already on a node does not get a second one, and does not count (S-CCH-2).
#[test]
fn a_member_that_is_placed_already() {
    let cluster = small_cluster(&["n1 cpu=4 memory=8Gi pods=9"], &["a node=n1 cpu=1"]);
    let members = pods(&cluster, &["a cpu=1", "b cpu=1"]);
    let outcome = place(&cluster, &members, Some(Gang { min_count: 2, preempt: None }), true);
    let (key, node) = (members[0].key().clone(), "n1".into());
    assert_eq!(outcome.results[0], Err(EngineError::AlreadyPlaced { pod: key, node }));
    assert!(!outcome.gang.unwrap().placed);
    assert_eq!(cluster.snapshot().n_pods(), 1);
    let outcome = place(&cluster, &members, Some(Gang { min_count: 1, preempt: None }), true);
    assert!(outcome.gang.unwrap().placed);
    assert_eq!(cluster.snapshot().n_pods(), 2);
}

/// A pod that is listed twice in a gang counts once.
#[test]
fn a_member_that_comes_twice() {
    let cluster = small_cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[]);
    let members = pods(&cluster, &["a cpu=1", "a cpu=1"]);
    for assume in [false, true] {
        let outcome = place(&cluster, &members, Some(Gang::default()), assume);
        assert!(
            matches!(outcome.results[1], Err(EngineError::AlreadyPlaced { .. })),
            "{outcome:?}"
        );
        assert!(!outcome.gang.unwrap().placed);
        assert_eq!(cluster.snapshot().n_pods(), 0);
    }
}

/// A gang without members is placed.
#[test]
fn an_empty_gang() {
    let cluster = small_cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[]);
    let outcome = place(&cluster, &[], Some(Gang::default()), true);
    assert_eq!((outcome.results.len(), outcome.gang.unwrap().n_placed), (0, 0));
    let request = PlaceRequest {
        pod: &pods(&cluster, &["a cpu=1"])[0],
        policy: &Policy::default(),
        tie_break: TieBreak::Lexicographic,
        now: None,
    };
    assert!(matches!(cluster.assume(&request).unwrap().outcome, Outcome::Placed(_)));
}
