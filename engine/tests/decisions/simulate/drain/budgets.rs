//! Disruption budgets: the pods they cover, the remaining evictions, and waves (S-SD-5 to S-SD-7).

use berth_engine::{
    Cluster, DrainMode, NodeOutcome, PodVerdict, Policy, PreemptOptions, PreemptRequest, TieBreak,
    UnremovableReason,
};
use serde_json::{Value, json};

use super::{Ask, budget, cluster, replica, stays, words};
use berth_testing::object;

fn roomy(pods: &[&str]) -> Cluster {
    let pods: Vec<_> = pods.iter().map(|words| replica(words)).collect();
    cluster(&["n0 cpu=40 pods=99", "n1 cpu=40 pods=99", "n2 cpu=40 pods=99"], &pods)
}

/// S-SD-5: an empty selector covers every pod of the namespace, whatever its labels; for preemption such a budget
/// covers none.
#[test]
fn an_empty_selector_covers_all_of_the_namespace() {
    let check = |selector: Value, labels: &str, expected: &str| {
        let low = replica(&format!("p cpu=30 node=n0 {labels}"));
        let cluster = cluster(&["n0 cpu=40 pods=99", "n1 cpu=40 pods=99"], &[low]);
        let deltas = vec![budget(&cluster, "default/b", selector, 0)];
        assert_eq!(cluster.apply(deltas).rejected, []);
        let drained = Ask::of(["n0"]).drain(&cluster);
        assert_eq!(words(&drained.nodes[0]), format!("p={expected}"));
        let policy = Policy::default();
        let high = cluster.compile_pod(&object::pod("h cpu=40 priority=9 named=n0")).unwrap();
        let preempted = cluster.preempt(&PreemptRequest {
            pod: &high,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            options: PreemptOptions::default(),
            cancelled: &|| false,
            now: None,
        });
        let chosen = preempted.unwrap().post_filter.unwrap().chosen.unwrap();
        chosen.n_pdb_violations
    };
    assert_eq!(check(json!({}), "label:app=x", "NotEnoughPdb"), 0);
    assert_eq!(check(json!({}), "", "NotEnoughPdb"), 0);
    assert_eq!(check(Value::Null, "label:app=x", "n1@1"), 0);
    let app = json!({"matchLabels": {"app": "x"}});
    assert_eq!(check(app.clone(), "label:app=x", "NotEnoughPdb"), 1);
    assert_eq!(check(app, "label:app=y", "n1@1"), 0);
    let absent = json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    assert_eq!(check(absent, "", "NotEnoughPdb"), 0, "preemption covers no pod without labels");
    let illegal = json!({"matchLabels": {"-": "x"}});
    assert_eq!(check(illegal, "label:app=x", "n1@1"), 0);
}

/// S-SD-5: pods that the status names as evicted still count against the budget.
#[test]
fn disrupted_pods_are_not_left_out() {
    let cluster = roomy(&["p cpu=1 node=n0 label:app=x"]);
    let changed: berth_proto::policy_v1::PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "b"}, "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0, "disruptedPods": {"p": "2026-03-01T11:00:00Z"}}
    }))
    .unwrap();
    let changed = cluster.compile_object(&changed).unwrap();
    cluster.apply(vec![berth_engine::Delta::UpsertObject(changed)]);
    let drained = Ask::of(["n0"]).drain(&cluster);
    assert_eq!(words(&drained.nodes[0]), "p=NotEnoughPdb");
}

/// S-SD-7: a drain that exceeds a budget at once is risky, and its pods leave in waves.
#[test]
fn pods_leave_in_waves() {
    let pods = [
        "a cpu=1 node=n0 label:app=x",
        "b cpu=1 node=n0 label:app=x",
        "c cpu=1 node=n0",
        "d cpu=1 node=n0 label:app=x",
        "e cpu=1 node=n0 label:app=y priority=7",
        "f cpu=1 node=n0 label:app=x label:tier=1",
    ];
    let check = |allowed: [i32; 2], expected: &str, n_waves: u32| {
        let cluster = roomy(&pods);
        let app = json!({"matchLabels": {"app": "x"}});
        let tier = json!({"matchLabels": {"tier": "1"}});
        let deltas = vec![
            budget(&cluster, "default/app", app, allowed[0]),
            budget(&cluster, "default/tier", tier, allowed[1]),
        ];
        assert_eq!(cluster.apply(deltas).rejected, []);
        let ask = Ask { destinations: Some(vec!["n1".into()]), ..Ask::of(["n0"]) };
        let drained = ask.drain(&cluster);
        let node = &drained.nodes[0];
        assert_eq!(words(node), expected);
        assert_eq!((node.n_waves, drained.n_waves), (n_waves, n_waves));
        assert_eq!(node.outcome, NodeOutcome::Removable { risky: n_waves > 1 });
        let names: Vec<&str> = node.pods[5].budgets.iter().map(|name| &**name).collect();
        assert_eq!(names, ["app", "tier"]);
        let used: Vec<_> =
            node.budgets.iter().map(|used| (&*used.name, used.n_moved, used.n_allowed)).collect();
        assert_eq!(used, [("app", 4, allowed[0].into()), ("tier", 1, allowed[1].into())]);
    };
    check([4, 1], "a=n1@1 b=n1@1 c=n1@1 d=n1@1 e=n1@1 f=n1@1", 1);
    check([2, 1], "a=n1@1 b=n1@1 c=n1@1 d=n1@2 e=n1@1 f=n1@2", 2);
    check([1, 1], "a=n1@1 b=n1@2 c=n1@1 d=n1@3 e=n1@1 f=n1@4", 4);
}

/// S-SD-6: nodes drained together share the allowed evictions; for nodes drained in turn the budgets recover in
/// between.
#[test]
fn budgets_are_shared_by_nodes_that_go_together() {
    let pods = [
        "a cpu=1 node=n0 label:app=x",
        "b cpu=1 node=n1 label:app=x",
        "c cpu=1 node=n1 label:app=x",
        "d cpu=1 node=n1",
    ];
    let check = |mode, n_allowed, expected: [&str; 2], waves: [u32; 2], risky: [bool; 2]| {
        let cluster = roomy(&pods);
        let app = json!({"matchLabels": {"app": "x"}});
        cluster.apply(vec![budget(&cluster, "default/app", app, n_allowed)]);
        let drained = Ask { mode, ..Ask::of(["n0", "n1"]) }.drain(&cluster);
        assert_eq!([words(&drained.nodes[0]), words(&drained.nodes[1])], expected, "{mode:?}");
        assert_eq!([drained.nodes[0].n_waves, drained.nodes[1].n_waves], waves, "{mode:?}");
        let is_risky =
            |i: usize| drained.nodes[i].outcome == NodeOutcome::Removable { risky: true };
        assert_eq!([is_risky(0), is_risky(1)], risky, "{mode:?}");
        drained
    };
    use DrainMode::{InTurn, OneByOne, Together};
    let all = ["a=n2@1", "b=n2@1 c=n2@1 d=n2@1"];
    check(Together, 3, all, [1, 1], [false; 2]);
    // One of two evictions is left for the second node, which is risky.
    check(Together, 2, ["a=n2@1", "b=n2@1 c=n2@2 d=n2@1"], [1, 2], [false, true]);
    let drained =
        check(Together, 1, ["a=n2@1", "b=NotEnoughPdb c=NotEnoughPdb d=(n2)"], [1, 0], [false; 2]);
    assert_eq!(stays(&drained.nodes[1]), Some((UnremovableReason::BlockedByPod, Some("b"))));
    check(InTurn, 2, ["a=n2@1", "b=n2@2 c=n2@2 d=n2@2"], [1, 1], [false; 2]);
    let drained = check(InTurn, 1, ["a=n2@1", "b=n2@2 c=n2@3 d=n2@2"], [1, 2], [false, true]);
    assert_eq!(drained.n_waves, 3);
    let drained = Ask { mode: OneByOne, ..Ask::of(["n1", "n0"]) }.drain(&{
        let cluster = roomy(&pods);
        let app = json!({"matchLabels": {"app": "x"}});
        cluster.apply(vec![budget(&cluster, "default/app", app, 1)]);
        cluster
    });
    let wave = |node: usize, pod: usize| match drained.nodes[node].pods[pod].verdict {
        PodVerdict::Moves { wave, .. } => wave,
        _ => 0,
    };
    assert_eq!((wave(0, 0), wave(0, 1), wave(1, 0)), (1, 2, 1), "each for itself");
}

/// A pod that moves to a node which is drained later must have arrived before it can leave again.
#[test]
fn a_pod_that_moves_twice_leaves_in_two_waves() {
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9", "n2 cpu=1 pods=9"];
    let cluster = cluster(&nodes, &[replica("p cpu=1 node=n0")]);
    for mode in [DrainMode::Together, DrainMode::InTurn] {
        let destinations = Some(vec!["n1".into(), "n2".into()]);
        let drained = Ask { mode, destinations, ..Ask::of(["n0", "n1"]) }.drain(&cluster);
        let found = [words(&drained.nodes[0]), words(&drained.nodes[1])];
        assert_eq!(
            (found, drained.n_waves),
            (["p=n1@1", "p=n2@2"].map(String::from), 2),
            "{mode:?}"
        );
    }
}
