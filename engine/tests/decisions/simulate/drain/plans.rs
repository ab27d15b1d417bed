//! Plans for random clusters and for a recorded one: each plan can be carried out, and where there is no plan, none is
//! possible.

use std::sync::Arc;

use berth_engine::{
    BlockingReason, Cluster, Drain, DrainMode, DrainRules, NodeDrain, NodeOutcome, PodVerdict,
};
use berth_proto::{apps_v1, core_v1, policy_v1, storage_v1};
use berth_testing::recorded;
use proptest::prelude::*;
use serde_json::Value;

use super::Ask;
use super::replay::{Replay, World, check_waves, in_order};
use crate::naive::objects::AnyObject;
use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};

const ALL: DrainRules = DrainRules {
    move_unreplicated: true,
    move_system_pods: true,
    system_pod_timeout_seconds: 0,
    move_local_storage: true,
    move_not_safe_to_evict: true,
    require_controllers: false,
    min_replicas: 0,
};

pub(crate) fn world(crowd: &Crowd) -> World {
    let pods = crowd.placed.iter().chain(&crowd.waiting);
    World {
        nodes: crowd.nodes.iter().map(|node| node.0.clone()).collect(),
        pods: pods.map(|pod| pod.0.clone()).collect(),
        objects: crowd.objects.clone(),
    }
}

fn names(world: &World) -> Vec<String> {
    world.nodes.iter().map(|node| node.metadata.as_ref().unwrap().name.clone()).collect()
}

/// Carries the plan out, node by node, and checks every refusal against the state of the cluster at that moment.
fn check(world: &World, cluster: &Cluster, ask: &Ask<'_>) -> Drain {
    let drained = ask.drain(cluster);
    let mut replay = Replay::new(world, cluster);
    let mut gone: Vec<Arc<str>> = Vec::new();
    for node in &drained.nodes {
        if ask.mode == DrainMode::OneByOne {
            replay = Replay::new(world, cluster);
            gone.clear();
        }
        check_rulings(world, ask.mode, node, &drained);
        match &node.outcome {
            NodeOutcome::Removable { .. } => {
                replay.carry_out(node);
                gone.push(node.node.clone());
                replay.check_end(&gone);
                if ask.mode == DrainMode::OneByOne {
                    check_waves(world, [node]);
                }
            }
            NodeOutcome::Unremovable { .. } => check_refusal(world, cluster, &drained, node, ask),
        }
    }
    if ask.mode != DrainMode::OneByOne {
        check_waves(world, drained.nodes.iter().filter(|node| node.outcome.is_removable()));
    }
    drained
}

/// Checks that a pod is blocked exactly if one of its budgets is exhausted; here no other rule blocks pods.
fn check_rulings(world: &World, mode: DrainMode, node: &NodeDrain, drained: &Drain) {
    let earlier = drained.nodes.iter().take_while(|other| other.node != node.node);
    let earlier: Vec<&NodeDrain> = match mode {
        DrainMode::Together => earlier.filter(|other| other.outcome.is_removable()).collect(),
        DrainMode::OneByOne | DrainMode::InTurn => Vec::new(),
    };
    for pod in &node.pods {
        let namespace = &*pod.pod.namespace;
        let is_exhausted = world.budgets_of(world.pod(&pod.pod)).iter().any(|budget| {
            let took = |other: &&berth_engine::PodDrain| {
                matches!(other.verdict, PodVerdict::Moves { .. })
                    && *other.pod.namespace == *namespace
                    && other.budgets.iter().any(|name| **name == **budget)
            };
            let n_taken = earlier.iter().flat_map(|other| &other.pods).filter(took).count();
            world.allowed(namespace, budget) - i64::try_from(n_taken).unwrap() < 1
        });
        let is_blocked =
            matches!(pod.verdict, PodVerdict::Blocked { reason: BlockingReason::NotEnoughPdb, .. });
        let is_late = pod.verdict == PodVerdict::LongTerminating;
        assert_eq!(is_blocked, is_exhausted && !is_late, "{}", pod.pod);
    }
}

/// Checks that the first pod without room fits on no allowed node, with the other pods on their planned nodes.
fn check_refusal(
    world: &World,
    cluster: &Cluster,
    drained: &Drain,
    node: &NodeDrain,
    ask: &Ask<'_>,
) {
    let mut replay = Replay::new(world, cluster);
    if ask.mode != DrainMode::OneByOne {
        let earlier = drained.nodes.iter().take_while(|other| other.node != node.node);
        for other in earlier.filter(|other| other.outcome.is_removable()) {
            replay.carry_out(other);
        }
    }
    replay.clear(node);
    let mut pods: Vec<_> = node.pods.iter().collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
    for pod in pods {
        match &pod.verdict {
            PodVerdict::Moves { node, .. } => {
                assert!(replay.feasible(&pod.pod).unwrap().contains(node));
                replay.start(&pod.pod, node);
            }
            PodVerdict::NoRoom { message, .. } => {
                let is_asked = |name: &Arc<str>| match ask.mode {
                    DrainMode::OneByOne => *name == node.node,
                    DrainMode::Together | DrainMode::InTurn => ask.nodes.contains(name),
                };
                let mut feasible = replay.feasible(&pod.pod).unwrap();
                feasible.retain(|name| !is_asked(name));
                assert!(feasible.is_empty(), "{} ({message}) could go to {feasible:?}", pod.pod);
            }
            PodVerdict::Blocked { reason: BlockingReason::UnexpectedError, .. } => {
                assert!(replay.feasible(&pod.pod).is_err(), "{}", pod.pod);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(60, 171))]

    /// S-SD-6, S-CAS-8: a plan for one node after another, each as if it were the only one.
    #[test]
    fn plans_for_single_nodes_can_be_carried_out(crowd in crowd(Company::Related, 2..6, 4..30)) {
        let world = world(&crowd);
        let names = names(&world);
        let ask = Ask { rules: ALL, ..Ask::of(names.iter().map(String::as_str)) };
        check(&world, &world.cluster(), &ask);
    }

    /// S-SD-6: plans in which later nodes build on earlier ones, with any relations between pods.
    #[test]
    fn plans_for_several_nodes_can_be_carried_out(
        crowd in crowd(Company::Related, 3..7, 4..30), n in 1..4_usize, in_turn in any::<bool>(),
    ) {
        let world = world(&crowd);
        let names = names(&world);
        let mode = if in_turn { DrainMode::InTurn } else { DrainMode::Together };
        let ask = Ask { mode, rules: ALL, ..Ask::of(names.iter().take(n).map(String::as_str)) };
        check(&world, &world.cluster(), &ask);
    }

    /// S-SD-6: each plain pod goes to the node that a placement at that moment would choose.
    #[test]
    fn pods_go_where_placements_would_put_them(crowd in crowd(Company::Plain, 2..6, 4..30)) {
        let mut world = world(&crowd);
        world.pods.truncate(crowd.placed.len());
        let names = names(&world);
        let ask = Ask { rules: ALL, ..Ask::of(names.iter().map(String::as_str)) };
        let cluster = world.cluster();
        for node in &ask.drain(&cluster).nodes {
            let mut replay = Replay::new(&world, &cluster);
            replay.clear(node);
            for (pod, to) in in_order(node) {
                let chosen = replay.chosen(pod).unwrap();
                // A pod that tolerates everything may choose the drained node, which is not a destination.
                prop_assert!(chosen == *to || chosen == node.node, "{} {} {}", pod, chosen, to);
                replay.start(pod, to);
            }
        }
    }
}

/// Drains every fifteenth node of the recorded cluster, alone, together and in turn.
#[test]
fn a_recorded_cluster_can_be_drained() {
    let Some(world) = recorded() else { return };
    let cluster = world.cluster();
    let names = names(&world);
    let some: Vec<&str> = names.iter().step_by(15).map(String::as_str).collect();
    let by_default = check(&world, &cluster, &Ask::of(some.iter().copied())).nodes;
    let reasons: std::collections::BTreeSet<_> = by_default
        .iter()
        .flat_map(|node| &node.pods)
        .filter_map(|pod| match &pod.verdict {
            PodVerdict::Blocked { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert!(reasons.contains("NotReplicated") && reasons.contains("NotEnoughPdb"), "{reasons:?}");
    let mut n_go = Vec::new();
    for mode in [DrainMode::OneByOne, DrainMode::Together, DrainMode::InTurn] {
        let ask = Ask { mode, rules: ALL, ..Ask::of(some.iter().copied()) };
        let drained = check(&world, &cluster, &ask);
        n_go.push(drained.nodes.iter().filter(|node| node.outcome.is_removable()).count());
    }
    assert!(n_go[2] >= n_go[1] && n_go[1] > 0, "{n_go:?}");
}

/// Returns the recorded cluster of 300 nodes, or `None` if it is absent.
pub(crate) fn recorded() -> Option<World> {
    let dump = recorded::read("data/cluster-dump/mid.json.gz")?;
    let list: Value = serde_json::from_str(&dump).expect("a dump is JSON");
    let mut world = World::default();
    for item in list["items"].as_array().expect("a list") {
        read(item, &mut world);
    }
    Some(world)
}

fn read(item: &Value, world: &mut World) {
    macro_rules! wire {
        ($type:ty) => {{
            let object: $type = serde_json::from_value(item.clone()).expect("an object");
            object
        }};
    }
    let object: AnyObject = match item["kind"].as_str().expect("a kind") {
        "Node" => return world.nodes.push(wire!(core_v1::Node)),
        "Pod" => {
            let pod = wire!(core_v1::Pod);
            let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
            if !matches!(phase, "Succeeded" | "Failed") {
                world.pods.push(pod);
            }
            return;
        }
        "Namespace" => wire!(core_v1::Namespace).into(),
        "Service" => wire!(core_v1::Service).into(),
        "ReplicaSet" => wire!(apps_v1::ReplicaSet).into(),
        "StatefulSet" => wire!(apps_v1::StatefulSet).into(),
        "PersistentVolume" => wire!(core_v1::PersistentVolume).into(),
        "PersistentVolumeClaim" => wire!(core_v1::PersistentVolumeClaim).into(),
        "StorageClass" => wire!(storage_v1::StorageClass).into(),
        "CSINode" => wire!(storage_v1::CsiNode).into(),
        "PodDisruptionBudget" => wire!(policy_v1::PodDisruptionBudget).into(),
        _ => return,
    };
    world.objects.push(object);
}
