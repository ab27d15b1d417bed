//! Consolidation: the order in which nodes are removed, the nodes that take their pods, and plans that can be carried
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_engine::{
    Cluster, ConsolidateRequest, Consolidation, ConsolidationEnd, Delta, DrainRules, EngineError,
    NodePrices, NodeRules, PodVerdict, Policy, TieBreak, UnremovableReason,
};
use berth_proto::core_v1;
use proptest::prelude::*;
use serde_json::json;

use super::drain::replay::{Replay, World, check_waves};
use super::drain::{NOW, budget, cluster, owner, pod, recorded, replica, words, world_of};
use crate::random::config;
use crate::random::crowd::{Company, crowd};

/// A request for a consolidation; fields that a test does not set have their defaults.
#[derive(Clone)]
struct Ask<'a> {
    candidates: Option<Vec<Arc<str>>>,
    rules: DrainRules,
    threshold: Option<f64>,
    together: bool,
    max_nodes: usize,
    prices: NodePrices<'a>,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Ask {
            candidates: None,
            rules: DrainRules::default(),
            threshold: Some(0.5),
            together: false,
            max_nodes: usize::MAX,
            prices: NodePrices::default(),
        }
    }
}

impl Ask<'_> {
    fn plan(&self, cluster: &Cluster) -> Consolidation {
        let planned = self.try_plan(cluster, &|| false).unwrap();
        assert_eq!(planned, self.try_plan(cluster, &|| false).unwrap(), "the same again (S-CAS-8)");
        planned
    }

    fn try_plan(
        &self,
        cluster: &Cluster,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Consolidation, EngineError> {
        let policy = Policy::default();
        cluster.consolidate(&ConsolidateRequest {
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            candidates: self.candidates.as_deref(),
            node_rules: NodeRules { utilization_threshold: self.threshold, ..NodeRules::default() },
            rules: self.rules,
            together: self.together,
            max_nodes: self.max_nodes,
            prices: self.prices,
            now: NOW,
            cancelled,
        })
    }
}

/// Summarises a plan: `n0: a=n1@1; n2:` for the steps, `n1 NotUnderutilized` for the nodes that stay.
fn summary(planned: &Consolidation) -> (String, String) {
    let steps = planned.steps.iter();
    let steps = steps.map(|step| format!("{}: {}", step.drain.node, words(&step.drain)));
    let kept = planned.kept.iter().map(|kept| format!("{} {}", kept.node, kept.reason.as_str()));
    (steps.collect::<Vec<_>>().join("; "), kept.collect::<Vec<_>>().join("; "))
}

fn check(cluster: &Cluster, ask: &Ask<'_>, steps: &str, kept: &str) -> Consolidation {
    let planned = ask.plan(cluster);
    assert_eq!(summary(&planned), (steps.to_owned(), kept.to_owned()));
    planned
}

fn replicas(words: &[&str]) -> Vec<core_v1::Pod> {
    words.iter().map(|words| replica(words)).collect()
}

const NODES: [&str; 4] = [
    "n0 cpu=4 memory=8Gi pods=10",
    "n1 cpu=4 memory=8Gi pods=10",
    "n2 cpu=4 memory=8Gi pods=10",
    "n3 cpu=4 memory=8Gi pods=10",
];

/// The emptiest node is removed first; nodes above the threshold stay and take the pods that fit.
#[test]
fn the_emptiest_go_first() {
    let pods = ["a cpu=1500m node=n0", "b cpu=1 node=n1", "c cpu=3 node=n2"];
    let cluster = cluster(&NODES[..3], &replicas(&pods));
    let ask = Ask::default();
    let planned = check(&cluster, &ask, "n1: b=n2@1", "n2 NotUnderutilized; n0 NoPlaceToMovePods");
    assert_eq!(planned.end, ConsolidationEnd::Exhausted);
    assert_eq!((planned.savings.milli_cpu, planned.savings.memory), (4000, 8 << 30));
    assert_eq!((planned.savings.price_per_hour, planned.disruption.n_moved), (None, 1));
    check(&cluster, &Ask { max_nodes: 0, ..ask.clone() }, "", "n2 NotUnderutilized");
    let named = vec!["n0".into(), "gone".into()];
    let ask = Ask { candidates: Some(named), ..ask };
    let planned = check(&cluster, &ask, "n0: a=n1@1", "gone NoNodeInfo");
    assert_eq!(planned.end, ConsolidationEnd::Exhausted);
}

/// If only candidates have room, the last of them in order takes as many pods as fit, and stays.
#[test]
fn candidates_that_take_in_pods_stay() {
    let pods =
        ["a cpu=1 node=n0", "b cpu=1100m node=n1", "c cpu=1200m node=n2", "d cpu=1300m node=n3"];
    let cluster = cluster(&NODES, &replicas(&pods));
    // n3 takes two pods and has no room for c, and no other node is left.
    let steps = "n0: a=n3@1; n1: b=n3@2";
    let kept = "n3 NotUnneededOtherReason; n2 NoPlaceToMovePods";
    check(&cluster, &Ask::default(), steps, kept);
}

/// The most expensive nodes are removed first, by their own price or by that of their label; savings are reported if
/// prices are known.
#[test]
fn the_dearest_go_first() {
    let pods = ["a cpu=1 node=n0", "b cpu=500m node=n1", "c cpu=2500m node=n2"];
    let nodes = [
        "n0 cpu=4 memory=8Gi pods=10 label:type=large",
        "n1 cpu=4 memory=8Gi pods=10 label:type=small",
        "n2 cpu=4 memory=8Gi pods=10",
    ];
    let cluster = cluster(&nodes, &replicas(&pods));
    let by_label: BTreeMap<String, f64> =
        [("large".to_owned(), 0.5), ("small".to_owned(), 0.25)].into();
    let by_node: BTreeMap<String, f64> = [("n1".to_owned(), 0.75)].into();
    let prices = NodePrices { label: "type", by_label: Some(&by_label), by_node: None };
    let ask = Ask { prices, max_nodes: 1, ..Ask::default() };
    let planned = check(&cluster, &ask, "n0: a=n2@1", "n2 NotUnderutilized");
    assert_eq!(planned.savings.price_per_hour, Some(0.5));
    assert_eq!(planned.end, ConsolidationEnd::MaxNodes);
    let prices = NodePrices { by_node: Some(&by_node), ..prices };
    let ask = Ask { prices, max_nodes: 2, ..ask };
    let planned = check(&cluster, &ask, "n1: b=n2@1; n0: a=n2@2", "n2 NotUnderutilized");
    assert_eq!(planned.savings.price_per_hour, Some(1.25));
}

/// Nodes stay whose pods must not move or have to be waited for, and no pod moves for them.
#[test]
fn nodes_with_pods_that_stay_are_kept() {
    let waits = json!({"metadata": {
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"},
        "ownerReferences": [owner("Job", "j")]
    }});
    let daemon = json!({"metadata": {"ownerReferences": [owner("DaemonSet", "d")]}});
    let pods = [
        pod("bare cpu=100m node=n0", json!({})),
        replica("with cpu=100m node=n0"),
        pod("job cpu=100m node=n1", waits),
        pod("d cpu=100m node=n2", daemon),
    ];
    let cluster = cluster(&NODES[..3], &pods);
    let ask = Ask::default();
    let planned =
        check(&cluster, &ask, "n2: d=daemon", "n1 BlockedByOnCompletionPod; n0 BlockedByPod");
    assert_eq!(planned.kept[1].blocking_pod.as_ref().map(|pod| &*pod.name), Some("bare"));
    assert_eq!((planned.disruption.n_moved, planned.disruption.n_ended), (0, 1));
    let rules = DrainRules { move_unreplicated: true, ..DrainRules::default() };
    let planned = Ask { rules, ..ask }.plan(&cluster);
    assert_eq!(planned.disruption.n_without_controller, 1);
}

/// S-SD-6, S-SD-7: in mode Together all moves are within every budget; in turn, budgets recover between nodes, and pods
/// leave in waves.
#[test]
fn budgets_bound_a_plan() {
    let pods = [
        "a cpu=100m node=n0 label:app=x",
        "b cpu=100m node=n1 label:app=x",
        "c cpu=100m node=n1 label:app=x",
        "e cpu=3 node=n3",
    ];
    let cluster = cluster(&[NODES[0], NODES[1], NODES[3]], &replicas(&pods));
    let app = json!({"matchLabels": {"app": "x"}});
    let allow = |n| {
        assert_eq!(
            cluster.apply(vec![budget(&cluster, "default/app", app.clone(), n)]).rejected,
            []
        )
    };
    let ask = Ask::default();
    let together = Ask { together: true, ..ask.clone() };
    allow(1);
    check(&cluster, &ask, "n0: a=n3@1; n1: b=n3@2 c=n3@3", "n3 NotUnderutilized");
    let planned = check(&cluster, &together, "n0: a=n3@1", "n3 NotUnderutilized; n1 BlockedByPod");
    assert_eq!(planned.kept[1].blocking_pod.as_ref().map(|pod| &*pod.name), Some("b"));
    allow(2);
    check(&cluster, &together, "n0: a=n3@1", "n3 NotUnderutilized; n1 BlockedByPod");
    allow(3);
    let planned =
        check(&cluster, &together, "n0: a=n3@1; n1: b=n3@1 c=n3@1", "n3 NotUnderutilized");
    assert_eq!(planned.disruption.n_under_budget, 3);
    assert_eq!(planned.steps[1].drain.budgets[0].n_allowed, 2);
    allow(0);
    check(&cluster, &ask, "", "n3 NotUnderutilized; n0 BlockedByPod; n1 BlockedByPod");
}

#[test]
fn a_plan_that_nobody_waits_for_is_given_up() {
    let cluster = cluster(&NODES, &replicas(&["a cpu=100m node=n0", "b cpu=3 node=n1"]));
    let given_up = Ask::default().try_plan(&cluster, &|| true);
    assert_eq!(given_up, Err(EngineError::Cancelled));
}

/// Carries a plan out, and checks that no pod moves twice or to a removed node.
fn check_plan(world: &World, cluster: &Cluster, ask: &Ask<'_>) -> Consolidation {
    let planned = ask.plan(cluster);
    let mut replay = Replay::new(world, cluster);
    let gone: Vec<Arc<str>> = planned.steps.iter().map(|step| step.drain.node.clone()).collect();
    let mut moved = BTreeSet::new();
    for step in &planned.steps {
        assert!(step.drain.outcome.is_removable());
        for pod in &step.drain.pods {
            if let PodVerdict::Moves { .. } = pod.verdict {
                assert!(moved.insert(pod.pod.clone()), "{} moves twice", pod.pod);
            }
        }
        replay.carry_out(&step.drain);
    }
    replay.check_end(&gone);
    check_waves(world, planned.steps.iter().map(|step| &step.drain));
    if ask.together {
        let waves = planned.steps.iter().map(|step| step.drain.n_waves);
        assert!(waves.max().unwrap_or(0) <= 1);
    }
    let kept: BTreeSet<_> = planned.kept.iter().map(|kept| kept.node.clone()).collect();
    assert_eq!(kept.len(), planned.kept.len(), "a node stays for one reason");
    assert!(gone.iter().all(|node| !kept.contains(node)));
    if planned.end == ConsolidationEnd::Exhausted {
        assert_eq!(kept.len() + gone.len(), world.nodes.len());
    }
    let sum = |of: fn(&berth_engine::Savings) -> i64| -> i64 {
        planned.steps.iter().map(|step| of(&step.savings)).sum()
    };
    assert_eq!(planned.savings.milli_cpu, sum(|savings| savings.milli_cpu));
    assert_eq!(planned.savings.memory, sum(|savings| savings.memory));
    planned
}

const ALL: DrainRules = DrainRules {
    move_unreplicated: true,
    move_system_pods: true,
    system_pod_timeout_seconds: 0,
    move_local_storage: true,
    move_not_safe_to_evict: true,
    require_controllers: false,
    min_replicas: 0,
};

proptest! {
    #![proptest_config(config(60, 172))]

    /// S-CAS-8: any plan can be carried out step by step.
    #[test]
    fn plans_can_be_carried_out(
        crowd in crowd(Company::Related, 3..8, 2..20), together in any::<bool>(), max_nodes in 1..8_usize,
    ) {
        let world = world_of(&crowd);
        let ask = Ask { rules: ALL, threshold: None, together, max_nodes, ..Ask::default() };
        let planned = check_plan(&world, &world.cluster(), &ask);
        prop_assert!(planned.steps.len() <= max_nodes);
    }
}

#[test]
fn a_recorded_cluster_can_be_consolidated() {
    let Some(mut world) = recorded() else { return };
    let is_bound = |pod: &core_v1::Pod| pod.spec.as_ref().is_some_and(|s| !s.node_name.is_empty());
    world.pods.retain(is_bound);
    let cluster = world.cluster();
    let ask = Ask { rules: ALL, threshold: Some(0.6), max_nodes: 12, ..Ask::default() };
    let planned = check_plan(&world, &cluster, &ask);
    assert!(planned.steps.len() > 3, "{:?}", summary(&planned));
    let by_default = check_plan(&world, &cluster, &Ask { rules: DrainRules::default(), ..ask });
    let reasons: BTreeSet<UnremovableReason> = by_default.kept.iter().map(|k| k.reason).collect();
    assert!(reasons.contains(&UnremovableReason::NotUnderutilized), "{reasons:?}");
}

/// A node that is being removed anyway takes no pods.
#[test]
fn nodes_that_are_being_removed_take_no_pods() {
    let cluster = cluster(
        &["n0 cpu=4 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"],
        &[replica("p cpu=1 node=n0")],
    );
    let mut going =
        serde_json::to_value(berth_testing::object::node("n1 cpu=8 memory=8Gi pods=9")).unwrap();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let going = cluster.compile_node(&serde_json::from_value(going).unwrap()).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertNode(going)]).rejected, []);
    let candidates = Some(vec!["n0".into(), "n1".into()]);
    let planned = Ask { candidates, ..Ask::default() }.plan(&cluster);
    let [step] = planned.steps.as_slice() else { panic!("{planned:?}") };
    assert_eq!(words(&step.drain), "p=n2@1");
    assert_eq!(planned.kept[0].reason, UnremovableReason::CurrentlyBeingDeleted);
}

#[test]
fn candidates_are_named_once() {
    let cluster = cluster(&["n0 cpu=4 pods=9"], &[]);
    let candidates = Some(vec!["n0".into(), "n1".into(), "n0".into()]);
    let error = Ask { candidates, ..Ask::default() }.try_plan(&cluster, &|| false).unwrap_err();
    assert_eq!(error.to_string(), "`candidate_node_names[2]`: `n0` stands in the list twice");
}
