//! Nodes that a drain examines, and destinations of their pods (S-SD-1, S-SD-6).

use std::cell::Cell;
use std::sync::Arc;

use berth_engine::{
    Cluster, CountedReason, Delta, DrainMode, DrainRequest, DrainRules, EngineError, NodeRules,
    Plugin, PodKey, PodVerdict, Policy, TieBreak, UnremovableReason, WireObject,
};
use berth_testing::object;
use serde_json::{Value, json};

use super::{Ask, NOW, cluster, pod, replica, stays, words};

fn upsert_node(cluster: &Cluster, node: Value) {
    let node = cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertNode(node)]).rejected, []);
}

/// S-SD-1: the first reason that applies is returned.
#[test]
fn nodes_that_stay_whatever_is_on_them() {
    let recently: [Arc<str>; 1] = ["n0".into()];
    let rules = NodeRules {
        node_group_label: Some("pool"),
        keep_unready: true,
        utilization_threshold: Some(0.5),
        recently_unremovable: &recently,
        ..NodeRules::default()
    };
    let node = |metadata: Value, spec: Value, ready: &str, cpu: &str| {
        json!({
            "metadata": metadata, "spec": spec,
            "status": {
                "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": ready}]
            }
        })
    };
    let annotated = json!({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"});
    let deleted = json!({"name": "n0", "annotations": annotated, "deletionTimestamp": "2026-03-01T11:00:00Z"});
    let disabled = json!({"name": "n0", "annotations": annotated});
    let grouped = json!({"name": "n0", "labels": {"pool": "a"}});
    let tainted =
        json!({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]});
    use UnremovableReason as Reason;
    for (node, expected) in [
        (node(deleted, json!({}), "False", "1"), Reason::CurrentlyBeingDeleted),
        (node(grouped.clone(), tainted, "True", "1"), Reason::CurrentlyBeingDeleted),
        (node(disabled, json!({}), "False", "1"), Reason::ScaleDownDisabledAnnotation),
        (node(json!({"name": "n0"}), json!({}), "False", "1"), Reason::NotAutoscaled),
        (node(grouped.clone(), json!({}), "False", "1"), Reason::ScaleDownUnreadyDisabled),
        (node(grouped.clone(), json!({}), "Unknown", "1"), Reason::ScaleDownUnreadyDisabled),
        (node(grouped.clone(), json!({}), "True", "2"), Reason::NotUnderutilized),
        (node(grouped.clone(), json!({}), "True", "0"), Reason::UnexpectedError),
        (node(grouped.clone(), json!({}), "True", "4"), Reason::RecentlyUnremovable),
    ] {
        let cluster = cluster(&["n1 cpu=4 pods=10"], &[replica("p cpu=1 node=n0")]);
        upsert_node(&cluster, node.clone());
        let ask = Ask { node_rules: rules, ..Ask::of(["n0"]) };
        let drained = ask.drain(&cluster);
        assert_eq!(stays(&drained.nodes[0]), Some((expected, None)), "{node}");
        assert!(drained.nodes[0].pods.is_empty());
        // A node that is being removed stays excluded; all other reasons depend on the rules.
        let lenient = NodeRules { ignore_scale_down_disabled: true, ..NodeRules::default() };
        let drained = Ask { node_rules: lenient, ..Ask::of(["n0"]) }.drain(&cluster);
        let is_under_way = expected == Reason::CurrentlyBeingDeleted;
        assert_eq!(stays(&drained.nodes[0]).is_none(), !is_under_way, "{node}");
    }
}

/// S-SD-2: utilization for the threshold, on request without the pods of DaemonSets, and without pods that should be
/// gone.
#[test]
fn utilization_leaves_out_what_is_not_counted() {
    let daemon = pod(
        "d cpu=2 node=n0",
        json!({"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}}}),
    );
    let late =
        pod("l cpu=1 node=n0", json!({"metadata": {"deletionTimestamp": "2026-03-01T10:00:00Z"}}));
    let pods = [daemon, late, replica("p cpu=1 node=n0")];
    let cluster = cluster(&["n0 cpu=4 memory=8Gi pods=10", "n1 cpu=4 memory=8Gi pods=10"], &pods);
    let ratio = |node_rules: NodeRules<'static>| {
        let drained = Ask { node_rules, ..Ask::of(["n0"]) }.drain(&cluster);
        let utilization = drained.nodes[0].utilization.clone().unwrap();
        (utilization.ratio, utilization.resource.to_string())
    };
    assert_eq!(ratio(NodeRules::default()), (0.75, "cpu".to_owned()));
    let skipping = NodeRules { skip_daemon_pods: true, ..NodeRules::default() };
    assert_eq!(ratio(skipping), (0.5, "cpu".to_owned()));
}

/// S-SD-6: the most important pod is placed first, and pods of equal importance in node order.
#[test]
fn important_pods_are_placed_first() {
    let pods = ["a cpu=3 node=n0", "b cpu=3 node=n0", "c cpu=3 node=n0 priority=5"];
    let pods: Vec<_> = pods.iter().map(|words| replica(words)).collect();
    let cluster = cluster(&["n0 cpu=9 pods=10", "n1 cpu=5 pods=10", "n2 cpu=4 pods=10"], &pods);
    let drained = Ask::of(["n0"]).drain(&cluster);
    // c takes the larger node, a the other one, and b has no room.
    assert_eq!(words(&drained.nodes[0]), "a=(n2) b=no room c=(n1)");
    assert_eq!(stays(&drained.nodes[0]), Some((UnremovableReason::NoPlaceToMovePods, Some("b"))));
    let PodVerdict::NoRoom { message, reasons } = &drained.nodes[0].pods[1].verdict else {
        panic!("{drained:?}");
    };
    assert_eq!(message, "0/2 nodes are available: 2 Insufficient cpu.");
    let plugin = Plugin::NodeResourcesFit;
    assert_eq!(*reasons, [CountedReason { plugin, text: "Insufficient cpu".into(), n_nodes: 2 }]);
}

/// S-SD-6: destinations are the named nodes, hints are tried first, and no pod moves to a cordoned node.
#[test]
fn destinations_and_hints() {
    let pods = [replica("a cpu=1 node=n0"), replica("b cpu=1 node=n0")];
    let nodes = [
        "n0 cpu=8 pods=10",
        "n1 cpu=4 pods=10",
        "n2 cpu=4 pods=10",
        "n3 cpu=1 pods=10 cordoned=true",
    ];
    let cluster = cluster(&nodes, &pods);
    let ask = |destinations: &[&str], hints: &[(&str, &str)]| {
        let names = destinations.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
        let hints = hints.iter().map(|(pod, node)| (PodKey::new("default", pod), (*node).into()));
        let ask = Ask {
            destinations: (!names.is_empty()).then_some(names),
            hints: hints.collect(),
            ..Ask::of(["n0"])
        };
        words(&ask.drain(&cluster).nodes[0])
    };
    assert_eq!(ask(&[], &[]), "a=n1@1 b=n2@1");
    assert_eq!(ask(&[], &[("a", "n2")]), "a=n2@1 b=n1@1");
    assert_eq!(ask(&[], &[("a", "n2"), ("b", "n2")]), "a=n2@1 b=n2@1");
    assert_eq!(ask(&[], &[("a", "n3"), ("b", "gone")]), "a=n1@1 b=n2@1");
    assert_eq!(ask(&["n2", "n0"], &[]), "a=n2@1 b=n2@1");
    assert_eq!(ask(&["n2"], &[("a", "n1")]), "a=n2@1 b=n2@1");
    assert_eq!(ask(&["n3"], &[]), "a=no room b=no room");
    assert_eq!(ask(&["n0"], &[]), "a=no room b=no room");
    let ask = Ask { destinations: Some(vec!["n2".into(), "gone".into()]), ..Ask::of(["n0"]) };
    assert_eq!(
        ask.try_drain(&cluster).unwrap_err().to_string(),
        "`destination_node_names[1]`: the cluster has no node `gone`"
    );
}

/// S-SD-6: a drained node is still a domain while its pods are placed, but empty except for the pods of its DaemonSets.
#[test]
fn the_domain_of_a_node_that_goes_still_counts() {
    let spread = "label:app=x spread=zone,1,DoNotSchedule,app:x";
    let pods = [format!("a cpu=1 node=n0 {spread}"), format!("b cpu=1 node=n1 {spread}")];
    let pods: Vec<_> = pods.iter().map(|words| replica(words)).collect();
    let nodes = [
        "n0 cpu=4 pods=9 label:zone=z0",
        "n1 cpu=4 pods=9 label:zone=z1",
        "n2 cpu=4 pods=9 label:zone=z1",
    ];
    let cluster = cluster(&nodes, &pods);
    let drained = Ask::of(["n0"]).drain(&cluster);
    assert_eq!(words(&drained.nodes[0]), "a=no room", "zone z0 would have none, z1 two");
    // Once the node is deleted, so is its zone.
    let (n0, n1) = ("n0", "n1");
    cluster.apply(vec![Delta::DeleteNode(n0.into())]);
    let drained = Ask::of([n1]).drain(&cluster);
    assert_eq!(words(&drained.nodes[0]), "b=n2@1");
}

/// S-SD-6: later nodes are planned with earlier ones removed and moved pods counted; no pod moves to a drained node.
#[test]
fn nodes_that_go_together_build_on_each_other() {
    let pods = ["a cpu=2 node=n0", "b cpu=2 node=n1", "c cpu=1 node=n2"];
    let pods: Vec<_> = pods.iter().map(|words| replica(words)).collect();
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9", "n2 cpu=4 pods=9"];
    let cluster = cluster(&nodes, &pods);
    let planned = |mode, destinations: Option<&[&str]>| {
        let names = destinations.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        let ask = Ask { mode, destinations: names, ..Ask::of(["n0", "n1"]) };
        let drained = ask.drain(&cluster);
        drained.nodes.iter().map(words).collect::<Vec<_>>().join("; ")
    };
    // n2 takes one of two pods; the node that cannot be drained stays.
    assert_eq!(planned(DrainMode::Together, None), "a=n2@1; b=no room");
    assert_eq!(planned(DrainMode::InTurn, None), "a=n2@1; b=no room");
    assert_eq!(planned(DrainMode::OneByOne, None), "a=n2@1; b=n2@1");
    // On request a node to be drained takes pods while it exists; its own drain then moves them again.
    let all = ["n0", "n1", "n2"];
    assert_eq!(planned(DrainMode::InTurn, Some(&all)), "a=n2@1; b=no room");
    let only = ["n0", "n1"];
    assert_eq!(planned(DrainMode::InTurn, Some(&only)), "a=n1@1; b=no room a=no room");
    assert_eq!(planned(DrainMode::OneByOne, Some(&only)), "a=n1@1; b=n0@1");
}

/// A pod that cannot be decided, here one whose claim names no class (S-DRA-18), is reported as such; the other nodes
/// are still planned.
#[test]
fn a_pod_that_cannot_be_decided_blocks_its_node_alone() {
    let odd = pod(
        "odd cpu=1 node=n0",
        json!({"metadata": {"ownerReferences": [super::owner("ReplicaSet", "rs")]},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}}),
    );
    let cluster =
        cluster(&["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"], &[odd, replica("p cpu=1 node=n0")]);
    let claim = serde_json::from_value(json!({"metadata": {"namespace": "default", "name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}}));
    let claim: berth_proto::resource_v1::ResourceClaim = claim.unwrap();
    let claim = cluster.compile_object(WireObject::from(&claim)).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertObject(claim)]).rejected, []);
    let drained = Ask::of(["n0", "n1"]).drain(&cluster);
    assert_eq!(words(&drained.nodes[0]), "odd=UnexpectedError p=(n1)");
    assert_eq!(stays(&drained.nodes[0]), Some((UnremovableReason::UnexpectedError, Some("odd"))));
    assert_eq!(stays(&drained.nodes[1]), None);
}

/// S-SD-1: a node that is being removed takes no pods, unless the caller allows it.
#[test]
fn nodes_that_are_being_removed_take_no_pods() {
    let cluster = cluster(&["n0 cpu=4 pods=9", "n2 cpu=2 pods=9"], &[replica("p cpu=1 node=n0")]);
    let mut going = serde_json::to_value(object::node("n1 cpu=8 pods=9")).unwrap();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    upsert_node(&cluster, going);
    for mode in [DrainMode::OneByOne, DrainMode::Together, DrainMode::InTurn] {
        let drained = Ask { mode, ..Ask::of(["n0"]) }.drain(&cluster);
        assert_eq!(words(&drained.nodes[0]), "p=n2@1", "{mode:?}");
    }
    let ask = Ask { destinations: Some(vec!["n1".into()]), ..Ask::of(["n0"]) };
    assert_eq!(words(&ask.drain(&cluster).nodes[0]), "p=n1@1");
}

#[test]
fn nodes_are_named_once_and_callers_may_give_up() {
    let cluster = cluster(&["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"], &[]);
    let policy = Policy::default();
    let drain = |nodes: &[&str], n_patience: usize| {
        let nodes: Vec<Arc<str>> = nodes.iter().map(|name| Arc::from(*name)).collect();
        let n_asked = Cell::new(0);
        let drained = cluster.simulate_drain(&DrainRequest {
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            nodes: &nodes,
            mode: DrainMode::Together,
            destinations: None,
            hints: &[],
            node_rules: NodeRules::default(),
            rules: DrainRules::default(),
            now: NOW,
            cancelled: &|| n_asked.replace(n_asked.get() + 1) >= n_patience,
        });
        drained.map(|drained| drained.nodes.len()).map_err(|error| error.to_string())
    };
    assert_eq!(drain(&["n0", "n1"], 2), Ok(2));
    let twice = "`node_names[2]`: `n0` stands in the list twice";
    assert_eq!(drain(&["n0", "n1", "n0"], 3), Err(twice.to_owned()));
    // Cancellation is checked for each node, even without pods.
    assert_eq!(drain(&["n0", "n1"], 1), Err(EngineError::Cancelled.to_string()));
}

/// S-PTS-5: a terminating pod does not count for spread constraints, but its replacement does.
#[test]
fn what_is_made_in_place_of_a_terminating_pod_counts() {
    let spread = "label:app=w spread=zone,1,DoNotSchedule,app:w";
    let nodes = [
        "n0 cpu=4 pods=9 label:zone=a",
        "n1 cpu=4 pods=9 label:zone=b",
        "n2 cpu=4 pods=9 label:zone=c",
    ];
    let check = |deleted: Value| {
        let owners = json!([super::owner("ReplicaSet", "rs")]);
        let more = |deleted: &Value| json!({"metadata": {"ownerReferences": owners, "deletionTimestamp": deleted}});
        let words = |name: &str| format!("{name} cpu=1 node=n0 {spread}");
        let pods = [
            pod(&format!("{} priority=9", words("x")), more(&deleted)),
            pod(&words("y"), more(&Value::Null)),
            pod(&words("z"), more(&Value::Null)),
        ];
        let cluster = cluster(&nodes, &pods);
        let drained = Ask::of(["n0"]).drain(&cluster);
        // Zone a stays empty until n0 is gone.
        let found = super::words(&drained.nodes[0]);
        assert_eq!(found, "x=(n1) y=(n2) z=no room", "{deleted}");
    };
    check(Value::Null);
    check(json!(berth_proto::Time::from_unix_seconds(NOW)));
}
