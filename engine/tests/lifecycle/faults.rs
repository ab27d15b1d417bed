//! The fault scenarios (L-TEST-1 to L-TEST-6) in a small world: machines with node agents, two instances of every
//! controller that decide on outdated reads, a network that loses, delays and repeats requests, a fencing mechanism
//! that is late or fails, and people who force deletions. The engine makes every decision, and after every step the
//! invariants L-TEST-7 to L-TEST-10 are checked against the real state.
//!
//! | file | content |
//! |---|---|
//! | `world.rs` | steps, the network, faults, healing |
//! | `store.rs` | the API server and the ledger: conditional requests, and the journal |
//! | `machine.rs` | the real state: machines, processes, mounts |
//! | `agent.rs`, `controller.rs`, `node.rs` | the actors |
//! | `invariant.rs` | invariants after every step |

mod agent;
mod controller;
mod invariant;
mod machine;
mod node;
mod store;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use berth_engine::lifecycle::fence::{FenceScope, FenceState};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::config;
use controller::Person;
use store::Record;
use world::{Fault, Kind, N_NODES, Network, Step, Who, World};

const SCOPES: [FenceScope; 4] =
    [FenceScope::Compute, FenceScope::NetworkAndStorage, FenceScope::Storage, FenceScope::Network];

fn kind() -> impl Strategy<Value = Kind> {
    select(Kind::ALL.to_vec())
}

fn fault() -> impl Strategy<Value = Fault> {
    let node = || 0..N_NODES;
    let is_cut = || prop_oneof![2 => Just(true), 3 => Just(false)];
    prop_oneof![
        6 => (node(), is_cut()).prop_map(|(node, cut)| Fault::CutNode(node, cut)),
        2 => (0..2_usize, is_cut()).prop_map(|(zone, cut)| Fault::CutZone(zone, cut)),
        2 => any::<bool>().prop_map(Fault::CutAll),
        2 => (node(), any::<bool>()).prop_map(|(node, cut)| Fault::CutPeers(node, cut)),
        4 => (kind(), 0..2_usize, is_cut()).prop_map(|(k, i, cut)| Fault::CutStore(k, i, cut)),
        4 => node().prop_map(Fault::AgentCrash),
        3 => (kind(), 0..2_usize).prop_map(|(k, i)| Fault::ControllerCrash(k, i)),
        3 => node().prop_map(Fault::PowerOff),
        3 => node().prop_map(Fault::Boot),
        3 => node().prop_map(Fault::ProcessEnd),
        1 => node().prop_map(Fault::Eviction),
    ]
}

fn person(is_reckless: bool) -> impl Strategy<Value = Person> {
    let graces = vec![None, None, Some(5), Some(60), Some(-1), Some(0)];
    let acknowledged = if is_reckless { vec![false, true] } else { vec![false] };
    prop_oneof![
        3 => select(graces).prop_map(|grace| Person::Deletes { grace }),
        1 => select(acknowledged).prop_map(|acknowledged| Person::Forces { acknowledged }),
    ]
}

fn who(is_reckless: bool) -> impl Strategy<Value = Who> {
    let controller = |kind| (0..2_usize).prop_map(move |instance| Who::Controller(kind, instance));
    prop_oneof![
        30 => (0..N_NODES).prop_map(Who::Agent),
        6 => controller(Kind::StatefulSet),
        6 => controller(Kind::Scheduler),
        12 => controller(Kind::Node),
        8 => controller(Kind::PodGc),
        14 => controller(Kind::Fencing),
        4 => Just(Who::Mechanism),
        2 => person(is_reckless).prop_map(Who::Person),
        3 => (0..N_NODES).prop_map(Who::Administrator),
        4 => Just(Who::Delivery),
        8 => (1..40_i64).prop_map(Who::Clock),
        10 => Just(Who::Round),
        4 => fault().prop_map(Who::Fault),
    ]
}

fn steps(is_reckless: bool) -> impl Strategy<Value = Vec<Step>> {
    let network = prop_oneof![
        20 => Just(Network::Fine),
        2 => Just(Network::LostRequest),
        2 => Just(Network::LostAnswer),
        2 => Just(Network::Delayed),
        2 => Just(Network::Repeated),
    ];
    let step = (who(is_reckless), 0..10_000_usize, network);
    vec(step.prop_map(|(who, pick, network)| Step { who, pick, network }), 250..600)
}

/// Runs random stories, after whose faults every pet must run again. Returns counts of what happened in them.
fn run_stories(cases: u32, seed: u64, is_reckless: bool) -> BTreeMap<String, usize> {
    let counts = RefCell::new(BTreeMap::new());
    let strategy = (select(SCOPES.to_vec()), any::<bool>(), steps(is_reckless));
    let config = ProptestConfig { max_shrink_iters: 200, ..config(cases, seed) };
    let outcome = TestRunner::new(config).run(&strategy, |(scope, peers, steps)| {
        let mut world = World::new(scope, peers);
        for step in &steps {
            world.step(step);
        }
        for (what, n) in world.counts() {
            *counts.borrow_mut().entry(what.clone()).or_default() += n;
        }
        world.heal();
        prop_assert!(world.settle(400, true), "does not come back: {}", state(&world));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    counts.into_inner()
}

fn state(world: &World) -> String {
    let store = &world.server.store;
    let pods: Vec<_> = store.pods.values().map(|pod| serde_json::to_string(pod).unwrap()).collect();
    let nodes: Vec<_> =
        store.nodes.values().map(|node| serde_json::to_string(node).unwrap()).collect();
    format!(
        "{pods:#?}\n{nodes:#?}\n{:?}\n{:?}\n{:?}\n{:?}",
        store.locks,
        store.volumes,
        store.fences,
        world.machines.iter().map(|machine| &machine.processes).collect::<Vec<_>>()
    )
}

/// L-TEST-1 to L-TEST-6 in random combinations, with L-TEST-7 to L-TEST-10 checked after every step.
#[test]
fn whatever_fails_nothing_is_held_twice() {
    let counts = run_stories(200, 55, false);
    // If these events did not occur, the test would prove nothing.
    for what in [
        "created",
        "started",
        "accepted",
        "refused",
        "late, accepted",
        "late, refused",
        "removed, ProcessesConfirmedDead",
        "removed, NeverBound",
        "removed, TerminalPhase",
        "removed, NodeOutOfService",
        "removed, NodeObjectDeleted",
        "removed, FenceConfirmed",
        "let go, Detached",
        "let go, FenceConfirmed",
    ] {
        assert!(counts.get(what).is_some_and(|n| *n >= 5), "{what} in {counts:#?}");
    }
    assert!(!counts.contains_key("released, AcknowledgedForceDelete"));
}

/// Runs the stories with people who force deletions and acknowledge the risk: identities may then be held twice, which
/// is recorded, but volumes may not.
#[test]
fn a_forced_deletion_costs_no_volume() {
    let counts = run_stories(100, 56, true);
    let n = counts.get("released, AcknowledgedForceDelete").copied().unwrap_or_default();
    assert!(n >= 10, "{counts:#?}");
}

/// Returns a world in which both pets run, and the node of the first.
fn running(scope: FenceScope) -> (World, usize) {
    let mut world = World::new(scope, false);
    assert!(world.settle(100, false));
    let node = node_of_first(&world);
    (world, node)
}

fn node_of_first(world: &World) -> usize {
    let name = world.runs_on("pet-0").unwrap();
    world.machines.iter().position(|machine| machine.name == name).unwrap()
}

fn fault_now(world: &mut World, fault: Fault) {
    world.step(&Step { who: Who::Fault(fault), pick: 0, network: Network::Fine });
}

fn entitlements(world: &World) -> Vec<String> {
    world.server.journal.iter().map(invariant::summary).collect()
}

/// Runs rounds until `done`, and returns their number.
fn rounds_until(world: &mut World, n: usize, done: impl Fn(&World) -> bool) -> usize {
    for round in 0..n {
        if done(world) {
            return round;
        }
        world.round(round, false);
    }
    assert!(done(world), "not within {n} rounds: {}", state(world));
    n
}

/// Returns the uid of the pod that holds the first name.
fn holder(world: &World) -> String {
    world.server.store.locks["pet-0"].holder_uid.clone().unwrap_or_default()
}

/// Deletes the first pet and cordons its node.
fn hand_over(world: &mut World, node: usize) {
    world.cordoned.insert(world.machines[node].name.clone());
    for pick in [0, 2] {
        let who = Who::Person(Person::Deletes { grace: None });
        world.step(&Step { who, pick, network: Network::Fine });
    }
}

/// L-TEST-5: the volumes are handed over even if the agents lose their memory after any step of termination and
/// hand-over (L-VOL-14).
#[test]
fn agents_crash_at_every_step_of_a_hand_over() {
    let (mut world, node) = running(FenceScope::Compute);
    let first = holder(&world);
    let start = world.agent_steps;
    hand_over(&mut world, node);
    let is_over = |world: &World| holder(world) != first && world.is_settled();
    rounds_until(&mut world, 200, is_over);
    let n_steps = world.agent_steps - start;
    assert!(n_steps >= 15, "{n_steps} steps");
    for step in 1..=n_steps {
        let (mut world, node) = running(FenceScope::Compute);
        world.agents_crash_after = Some(start + step);
        hand_over(&mut world, node);
        let first = holder(&world);
        rounds_until(&mut world, 300, |world| holder(world) != first && world.is_settled());
        assert_ne!(node_of_first(&world), node, "after step {step}");
        let journal = entitlements(&world);
        assert!(journal.iter().all(|why| !why.contains("Fence")), "{journal:?}");
    }
}

/// L-TEST-6: even if the controllers lose their memory after any step of fencing and one instance is gone for good, the
/// pod of the lost node is recreated elsewhere, after the fence and not before (L-VOL-15).
#[test]
fn controllers_crash_at_every_step_of_fencing() {
    let n_steps = fenced_with_crash_after(usize::MAX);
    assert!(n_steps >= 6, "{n_steps} steps");
    for step in 0..=n_steps {
        fenced_with_crash_after(step);
    }
}

/// Cuts a node off until its pod has moved; returns the number of fencing steps.
fn fenced_with_crash_after(step: usize) -> usize {
    let (mut world, node) = running(FenceScope::Compute);
    let first = holder(&world);
    fault_now(&mut world, Fault::CutNode(node, true));
    rounds_until(&mut world, 300, |world| {
        world.fencing_steps >= step.min(1_000) || is_moved(world, &first)
    });
    if step != usize::MAX {
        for kind in Kind::ALL {
            for instance in 0..2 {
                fault_now(&mut world, Fault::ControllerCrash(kind, instance));
            }
        }
        fault_now(&mut world, Fault::CutStore(Kind::Fencing, 0, true));
    }
    rounds_until(&mut world, 300, |world| is_moved(world, &first));
    let journal = entitlements(&world);
    assert!(journal.contains(&"let go, FenceConfirmed".to_owned()), "{journal:?}");
    assert!(journal.contains(&"removed, FenceConfirmed".to_owned()), "{journal:?}");
    let name = world.machines[node].name.clone();
    assert!(world.server.store.fences[&name].lets_remove_pods());

    // The node stays out of service until it was rebooted, and is readmitted then (L-FENCE-12).
    fault_now(&mut world, Fault::CutNode(node, false));
    fault_now(&mut world, Fault::Boot(node));
    rounds_until(&mut world, 100, |world| {
        world.server.store.fences[&name].state == FenceState::Recovered
    });
    world.fencing_steps
}

fn is_moved(world: &World, first: &str) -> bool {
    holder(world) != first && world.is_settled()
}

/// L-TEST-1: if the control plane loses one node, a zone or all nodes, nothing is released without a fence; once
/// contact is back everything continues as before.
#[test]
fn a_cut_control_plane_releases_nothing() {
    for (cut, mend) in [
        (Fault::CutNode(0, true), Fault::CutNode(0, false)),
        (Fault::CutZone(0, true), Fault::CutZone(0, false)),
        (Fault::CutAll(true), Fault::CutAll(false)),
    ] {
        let (mut world, _) = running(FenceScope::Compute);
        // There is no fencing in this story.
        for instance in 0..2 {
            fault_now(&mut world, Fault::CutStore(Kind::Fencing, instance, true));
        }
        fault_now(&mut world, cut);
        let n_records = world.server.journal.len();
        for round in 0..150 {
            world.round(round, false);
        }
        assert_eq!(world.server.journal.len(), n_records, "{cut:?}: {:?}", entitlements(&world));
        if matches!(cut, Fault::CutAll(_)) {
            // L-NODE-9: if no node is reachable, the control plane itself is cut off.
            let marked = world.server.store.pods.values().filter(|pod| store::is_marked(pod));
            assert_eq!(marked.count(), 0);
        }
        fault_now(&mut world, mend);
        assert!(world.settle(200, false), "{cut:?}: {}", state(&world));
    }
}

/// L-TEST-2: reports of nodes about each other release nothing by themselves, but prevent a fence if they count.
#[test]
fn nodes_that_do_not_hear_each_other_lose_nothing() {
    let (mut world, node) = running(FenceScope::Compute);
    world.peers_count = true;
    fault_now(&mut world, Fault::CutPeers(node, true));
    let n_records = world.server.journal.len();
    for round in 0..100 {
        world.round(round, false);
    }
    assert_eq!(world.server.journal.len(), n_records, "in contact, whatever its peers say");

    // The node is cut off from the control plane but not from its peers, so the detectors disagree.
    fault_now(&mut world, Fault::CutPeers(node, false));
    fault_now(&mut world, Fault::CutNode(node, true));
    for round in 0..150 {
        world.round(round, false);
    }
    assert_eq!(world.server.journal.len(), n_records, "{:?}", entitlements(&world));
    let first = holder(&world);
    fault_now(&mut world, Fault::CutPeers(node, true));
    rounds_until(&mut world, 300, |world| is_moved(world, &first));
}

/// L-TEST-3: controllers that are cut off from the store act late on outdated reads, and none of these actions has an
/// effect twice.
#[test]
fn what_was_decided_before_the_store_was_lost_does_not_count() {
    for kind in Kind::ALL {
        let (mut world, node) = running(FenceScope::Compute);
        for instance in 0..2 {
            fault_now(&mut world, Fault::CutStore(kind, instance, true));
        }
        // All requests of these controllers are delayed.
        fault_now(&mut world, Fault::CutNode(node, true));
        for round in 0..60 {
            for instance in 0..2 {
                let who = Who::Controller(kind, instance);
                world.step(&Step { who, pick: round * 7 + 1, network: Network::Delayed });
            }
            world.round(round, false);
        }
        fault_now(&mut world, Fault::CutNode(node, false));
        world.heal();
        assert!(world.settle(300, true), "{kind:?}: {}", state(&world));
    }
}

/// L-TEST-4: two instances with the same reads make the same decision, and one of them is refused.
#[test]
fn of_two_controllers_one_is_refused() {
    let mut world = World::new(FenceScope::Compute, false);
    for instance in 0..2 {
        // Both instances have read that the names are free.
        for _ in 0..2 {
            let who = Who::Controller(Kind::StatefulSet, instance);
            world.step(&Step { who, pick: 0, network: Network::Delayed });
        }
    }
    for _ in 0..8 {
        world.step(&Step { who: Who::Delivery, pick: 0, network: Network::Fine });
    }
    assert_eq!(world.server.store.pods.len(), 1);
    assert_eq!(world.counts()["late, accepted"], 1);
    assert_eq!(world.counts()["late, refused"], 3);
}

/// If a node is declared dead while it is off, its pods and volumes are released without a fence (L-FENCE-11, L-DEL-8,
/// L-GC-3, L-GC-5).
#[test]
fn a_node_declared_dead_gives_its_pods_up() {
    for (is_destroyed, why) in [(false, "NodeOutOfService"), (true, "NodeObjectDeleted")] {
        // A fence of the network alone allows no release.
        let (mut world, node) = running(FenceScope::Network);
        let first = holder(&world);
        fault_now(&mut world, Fault::PowerOff(node));
        // Nothing is released only because the node is silent, however long.
        for round in 0..60 {
            world.round(round, false);
        }
        assert_eq!(holder(&world), first);
        assert!(world.server.journal.is_empty(), "{:?}", world.server.journal);
        world.machines[node].is_destroyed = is_destroyed;
        world.step(&Step { who: Who::Administrator(node), pick: 1, network: Network::Fine });
        rounds_until(&mut world, 300, |world| is_moved(world, &first));
        let journal = entitlements(&world);
        for what in ["let go", "removed", "released"] {
            let record = format!("{what}, {why}");
            assert!(journal.contains(&record), "{record} in {journal:?}");
        }
    }
}

/// A storage fence releases volumes but no name; a network fence releases nothing (L-FENCE-10).
#[test]
fn a_fence_gives_up_only_what_it_covers() {
    for (scope, breaks) in [(FenceScope::Storage, true), (FenceScope::Network, false)] {
        let (mut world, node) = running(scope);
        let first = holder(&world);
        fault_now(&mut world, Fault::CutNode(node, true));
        for round in 0..200 {
            world.round(round, false);
        }
        let name = world.machines[node].name.clone();
        let state = world.server.store.fences[&name].state;
        assert!(matches!(state, FenceState::Fenced | FenceState::AttachmentsBroken), "{state:?}");
        assert_eq!(holder(&world), first);
        let journal = &world.server.journal;
        let is_break = |record: &Record| matches!(record, Record::LetGo { .. });
        assert_eq!(journal.iter().any(is_break), breaks, "{journal:?}");
        assert!(journal.iter().all(is_break), "{journal:?}");
    }
}
