//! Fences of the ledger: a fenced node takes no pod, whichever question is asked. Rules: S-FNC-1 to S-FNC-3.

use berth_engine::{
    Cluster, CommitError, Delta, Explanation, HeadroomRequest, Outcome, PlaceRequest, Plugin,
    Policy, PolicySpec, PreemptOptions, PreemptRequest, StatusCode, TieBreak, Verdict,
};
use berth_testing::object;

use crate::simulate::drain::{Ask, replica, words};

const REASON: &str = "node(s) were fenced by the ledger";

fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|text| upsert(&cluster, text));
    let pods =
        pods.iter().map(|text| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap()));
    assert_eq!(cluster.apply(nodes.chain(pods).collect()).rejected, []);
    cluster
}

fn upsert(cluster: &Cluster, node: &str) -> Delta {
    Delta::UpsertNode(cluster.compile_node(&object::node(node)).unwrap())
}

fn explain(cluster: &Cluster, pod: &str, policy: &Policy) -> Explanation {
    let pod = cluster.compile_pod(&object::pod(pod)).unwrap();
    let request = PlaceRequest { pod: &pod, policy, tie_break: TieBreak::Lexicographic, now: None };
    cluster.explain(&request).unwrap()
}

/// Returns the node of a placement, or the message of a refusal.
fn place(cluster: &Cluster, pod: &str) -> String {
    let pod = cluster.compile_pod(&object::pod(pod)).unwrap();
    let policy = Policy::default();
    let request =
        PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Lexicographic, now: None };
    match cluster.place(&request).unwrap().outcome {
        Outcome::Placed(placement) => placement.node.to_string(),
        Outcome::Unschedulable(why) => why.message,
        other => panic!("{other:?}"),
    }
}

const NODES: [&str; 2] = ["a cpu=4 memory=8Gi pods=9", "b cpu=8 memory=8Gi pods=9"];

/// S-FNC-1: the reason stands before every other, whatever the pod tolerates and whichever plugins the profile has.
#[test]
fn a_fenced_node_takes_no_pod() {
    let cluster = cluster(&NODES, &[]);
    assert_eq!(place(&cluster, "p cpu=6"), "b");
    assert!(cluster.set_fenced("b", true));
    assert!(!cluster.set_fenced("b", true), "nothing is changed by the second time");
    let message = format!("0/2 nodes are available: 1 Insufficient cpu, 1 {REASON}.");
    assert_eq!(place(&cluster, "p cpu=6"), message);
    assert_eq!(place(&cluster, "p cpu=1"), "a");
    let bare = PolicySpec { filter: vec![Plugin::NodeResourcesFit], ..PolicySpec::default() };
    for policy in [Policy::default(), Policy::new(bare).unwrap()] {
        let explained = explain(&cluster, "p cpu=6 toleration=,Exists,,", &policy);
        let refused = Verdict::Rejected {
            plugin: Some(Plugin::NodeUnschedulable),
            code: StatusCode::UnschedulableAndUnresolvable,
            reasons: vec![REASON.to_owned()],
        };
        let of_b = explained.nodes.iter().find(|node| &*node.node == "b").unwrap();
        assert_eq!(of_b.verdict, refused);
        let remedies: Vec<&str> = explained.remedies.iter().map(|r| &*r.change).collect();
        assert!(remedies.contains(&"lift the ledger's fence of `b`"), "{remedies:?}");
    }
    assert!(cluster.set_fenced("b", false));
    assert_eq!(place(&cluster, "p cpu=6"), "b");
}

/// S-FNC-2: a fence belongs to the node's name. It outlives the node's object and its changes.
#[test]
fn a_fence_outlives_the_nodes_object() {
    let cluster = cluster(&NODES[..1], &[]);
    assert!(cluster.set_fenced("b", true));
    assert_eq!(place(&cluster, "p cpu=1"), "a");
    let alone = ["0/1 nodes are available: 1 Insufficient cpu.", "1 Insufficient cpu"];
    assert_eq!(place(&cluster, "p cpu=6"), alone[0]);
    let fenced = format!("0/2 nodes are available: {}, 1 {REASON}.", alone[1]);
    let delete = || Delta::DeleteNode("b".into());
    for delta in [upsert(&cluster, NODES[1]), upsert(&cluster, "b cpu=16 memory=8Gi pods=9")] {
        cluster.apply(vec![delta]);
        assert_eq!(place(&cluster, "p cpu=6"), fenced);
    }
    cluster.apply(vec![delete()]);
    assert_eq!(place(&cluster, "p cpu=6"), alone[0]);
    // A node of another name that takes the row is not fenced.
    cluster.apply(vec![upsert(&cluster, "c cpu=8 memory=8Gi pods=9")]);
    assert_eq!(place(&cluster, "p cpu=6"), "c");
    cluster.apply(vec![Delta::DeleteNode("c".into()), upsert(&cluster, NODES[1])]);
    assert_eq!(place(&cluster, "p cpu=6"), fenced);
    assert_eq!(cluster.snapshot().fences().collect::<Vec<_>>(), ["b"]);
    assert!(cluster.replace_fences(["a"]) && !cluster.replace_fences(["a"]));
    let only_a = format!(
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 {REASON}."
    );
    assert_eq!(place(&cluster, "p cpu=6"), "b");
    assert_eq!(place(&cluster, "p cpu=1 named=a"), only_a);
    assert!(cluster.replace_fences([]));
    assert_eq!(place(&cluster, "p cpu=1 named=a"), "a");
}

/// S-FNC-3: eviction does not help on a fenced node, not even for a pod nominated to it.
#[test]
fn nobody_is_evicted_from_a_fenced_node() {
    let pods = ["low node=b cpu=8 priority=1", "lower node=a cpu=4 priority=2"];
    let cluster = cluster(&NODES, &pods);
    let chosen = |cluster: &Cluster, pod: &str| {
        let pod = cluster.compile_pod(&object::pod(pod)).unwrap();
        let request = PreemptRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            options: PreemptOptions::default(),
            cancelled: &|| false,
            now: None,
        };
        let post_filter = cluster.preempt(&request).unwrap().post_filter.unwrap();
        post_filter.chosen.map(|candidate| candidate.node.to_string())
    };
    assert_eq!(chosen(&cluster, "p cpu=4 priority=9").as_deref(), Some("b"));
    cluster.set_fenced("b", true);
    assert_eq!(chosen(&cluster, "p cpu=4 priority=9").as_deref(), Some("a"));
    assert_eq!(chosen(&cluster, "p cpu=8 priority=9 nominated=b"), None);
    // Nodes with nominated pods are filtered twice, with one result.
    cluster.apply(vec![Delta::DeletePod {
        key: berth_engine::PodKey::new("default", "low"),
        uid: None,
    }]);
    let promised = cluster.compile_pod(&object::pod("n cpu=1 priority=50 nominated=b")).unwrap();
    cluster.apply(vec![Delta::UpsertPod(promised)]);
    let message = format!("0/2 nodes are available: 1 Insufficient cpu, 1 {REASON}.");
    assert_eq!(place(&cluster, "p cpu=5"), message);
    assert_eq!(place(&cluster, "p cpu=5 nominated=b"), message);
}

/// S-FNC-1: simulations run the check too.
#[test]
fn nothing_is_planned_on_a_fenced_node() {
    let cluster = cluster(&NODES, &[]);
    let pod = cluster.compile_pod(&replica("r node=a cpu=1")).unwrap();
    cluster.apply(vec![Delta::UpsertPod(pod)]);
    assert_eq!(words(&Ask::of(["a"]).drain(&cluster).nodes[0]), "r=b@1");
    let headroom = |cluster: &Cluster| {
        let pod = cluster.compile_pod(&object::pod("p cpu=1")).unwrap();
        let request = HeadroomRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            limit: 100,
            nodes: None,
            cancelled: &|| false,
        };
        cluster.headroom(&request).unwrap().n_fit
    };
    assert_eq!(headroom(&cluster), 11);
    cluster.set_fenced("b", true);
    assert_eq!(words(&Ask::of(["a"]).drain(&cluster).nodes[0]), "r=no room");
    assert_eq!(headroom(&cluster), 3);
}

/// S-FNC-2: a session begins with the cluster's fences, and a fence that comes later keeps it from being committed.
#[test]
fn sessions_inherit_fences() {
    let cluster = cluster(&NODES, &[]);
    let before = cluster.fork();
    let pod = cluster.compile_pod(&object::pod("p cpu=6")).unwrap();
    let policy = Policy::default();
    let request =
        PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Lexicographic, now: None };
    assert!(matches!(before.assume(&request).unwrap().outcome, Outcome::Placed(_)));
    cluster.set_fenced("b", true);
    let after = cluster.fork();
    assert!(matches!(after.assume(&request).unwrap().outcome, Outcome::Unschedulable(_)));
    assert!(matches!(cluster.commit(&before), Err(CommitError::Changed { .. })));
    assert!(after.set_fenced("b", false), "a supposition of the session alone");
    assert!(matches!(after.assume(&request).unwrap().outcome, Outcome::Placed(_)));
    assert!(matches!(cluster.assume(&request).unwrap().outcome, Outcome::Unschedulable(_)));
}

/// Remembered evaluations notice each change of a fence: the same shape is placed over and over, and compared with a
/// cluster that remembers nothing.
#[test]
fn remembered_evaluations_follow_fences() {
    let nodes: Vec<String> =
        (0..600).map(|i| format!("n{i:03} cpu={} memory=8Gi pods=9", 2 + i % 5)).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let old = cluster(&nodes, &[]);
    for step in 0..60 {
        let node = format!("n{:03}", step * 7 % 30);
        old.set_fenced(&node, step % 3 != 2);
        let fresh = cluster(&nodes, &[]);
        let snapshot = old.snapshot();
        fresh.replace_fences(snapshot.fences());
        for pod in ["p cpu=1", "p cpu=6", "p cpu=2 toleration=,Exists,,"] {
            assert_eq!(place(&old, pod), place(&fresh, pod), "step {step}");
        }
    }
}
