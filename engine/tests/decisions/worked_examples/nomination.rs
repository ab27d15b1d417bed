//! Section 1.6: nominated pods.

use berth_engine::{Cluster, Nomination, Outcome, Placement};

use super::{cluster, explain, message, preempt, verdicts};
use berth_engine::{Delta, PlaceRequest, PodKey, Policy, PolicySpec, TieBreak};
use berth_testing::object;

const NO_CPU: &str = "U: Insufficient cpu";

fn three_nodes() -> Cluster {
    cluster(
        &["n1 cpu=4 memory=8Gi pods=9", "n2 cpu=1 memory=8Gi pods=9"],
        &["q cpu=3 priority=5 nominated=n1"],
    )
}

/// The worked example: S-NOM-1, and S-NOM-2 for the pod of higher priority.
#[test]
fn a_nominated_pod_counts_for_its_equals_and_lessers() {
    let cluster = three_nodes();
    let too_small = "UU: Insufficient cpu";
    assert_eq!(verdicts(&cluster, "p cpu=2 priority=5"), [NO_CPU, too_small]);
    assert_eq!(
        message(&cluster, "p cpu=2 priority=5"),
        "0/2 nodes are available: 2 Insufficient cpu."
    );
    assert_eq!(verdicts(&cluster, "p cpu=2"), [NO_CPU, too_small]);
    assert_eq!(verdicts(&cluster, "p cpu=2 priority=6"), ["ok", too_small]);
    // A nominated pod does not count against itself, because pods are compared by uid (S-NOM-1).
    assert_eq!(verdicts(&cluster, "q cpu=3 priority=5"), ["ok"]);
    assert_eq!(verdicts(&cluster, "other uid=q cpu=3 priority=5"), ["ok", too_small]);
}

/// S-NOM-4, S-CCH-2: the nomination of a pod ends when it is bound or deleted.
#[test]
fn a_nomination_ends_with_the_wait() {
    let cluster = three_nodes();
    let upsert = |text: &str| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap());
    cluster.apply(vec![upsert("q cpu=3 priority=5 node=n2")]);
    assert_eq!(verdicts(&cluster, "p cpu=2 priority=5")[0], "ok");
    cluster.apply(vec![upsert("r cpu=3 priority=5 nominated=n1")]);
    assert_eq!(verdicts(&cluster, "p cpu=2 priority=5")[0], NO_CPU);
    cluster.apply(vec![Delta::DeletePod { key: PodKey::new("default", "r"), uid: None }]);
    assert_eq!(verdicts(&cluster, "p cpu=2 priority=5")[0], "ok");
}

/// S-CYC-8: the room of an assumed pod counts once, because its nomination ends.
#[test]
fn an_assumed_pod_is_not_nominated_any_more() {
    let cluster = three_nodes();
    let pod = cluster.compile_pod(&object::pod("q cpu=3 priority=5 nominated=n1")).unwrap();
    let (policy, tie_break) = (Policy::default(), TieBreak::Lexicographic);
    let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
    let outcome = cluster.assume(&request).unwrap().outcome;
    assert!(matches!(outcome, Outcome::Placed(placement) if &*placement.node == "n1"));
    assert_eq!(verdicts(&cluster, "p cpu=1")[0], "ok");
    assert_eq!(verdicts(&cluster, "p cpu=2")[0], NO_CPU);
}

/// A pod nominated to n1 goes to n1 even if n3 is feasible too; if it does not fit on n1 any more, it goes elsewhere
/// (S-CYC-3, S-PRE-26).
#[test]
fn the_nominated_node_comes_first() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=9", "n3 cpu=8 memory=16Gi pods=9"];
    let placed = |pods: &[&str]| {
        let explained =
            explain(&cluster(&nodes, pods), "p cpu=2 nominated=n1", PolicySpec::default()).unwrap();
        match explained.decision.outcome {
            Outcome::Placed(placement) => (explained.nodes.len(), placement),
            outcome => panic!("{outcome:?}"),
        }
    };
    let on = |node: &str| Placement {
        node: node.into(),
        total: None,
        n_feasible: 1,
        n_best: 1,
        assumed: false,
        stamp: None,
        volumes: Default::default(),
        devices: None,
    };
    assert_eq!(placed(&["a node=n1 cpu=1"]), (1, on("n1")));
    assert_eq!(placed(&["a node=n1 cpu=3"]), (2, on("n3")));
}

/// S-NOM-3: in pass 1 a nominated pod also counts for ports and anti-affinity, unless the plugin is skipped (S-PF-1).
#[test]
fn a_nominated_pod_counts_in_every_filter() {
    let nodes =
        ["n1 cpu=4 memory=8Gi pods=9 label:host=n1", "n2 cpu=4 memory=8Gi pods=9 label:host=n2"];
    let cluster =
        cluster(&nodes, &["q priority=5 nominated=n1 port=80 label:app=x far=host,app:y"]);
    let ports = "U: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(verdicts(&cluster, "p port=80"), [ports, "ok"]);
    assert_eq!(
        verdicts(&cluster, "p far=host,app:x"),
        ["U: node(s) didn't match pod anti-affinity rules", "ok"]
    );
    // No pod on a node repels `app=y` and the pod has no terms, so InterPodAffinity skips, together with its hooks.
    assert_eq!(verdicts(&cluster, "p label:app=y"), ["ok", "ok"]);
    assert_eq!(
        verdicts(&cluster, "p label:app=y far=host,app:z"),
        ["U: node(s) didn't satisfy existing pods anti-affinity rules", "ok"]
    );
}

/// S-NOM-1: a pod must fit with the nominated pods and also without them, unlike one with affinity to such a pod.
#[test]
fn both_passes_have_to_succeed() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=9 label:host=n1"];
    let cluster = cluster(&nodes, &["q priority=5 nominated=n1 label:app=x"]);
    let affinity = "UU: node(s) didn't match pod affinity rules";
    assert_eq!(verdicts(&cluster, "p near=host,app:x"), [affinity]);
}

/// S-PRE-21, S-PRE-24, S-NOMC-1: the nominations of an attempt, applied to the cluster.
#[test]
fn nominating_clears_lower_nominations() {
    let cluster = cluster(
        &["n1 cpu=4 memory=8Gi pods=9"],
        &[
            "a node=n1 cpu=3 priority=1",
            "low cpu=1 priority=2 nominated=n1",
            "high cpu=1 priority=9 nominated=n1",
        ],
    );
    let text = "p cpu=3 priority=5";
    let post_filter = preempt(&cluster, text).preemption.post_filter.unwrap();
    assert_eq!(post_filter.nomination, Nomination::Node("n1".into()));
    assert_eq!(post_filter.cleared_nominations, [PodKey::new("default", "low")]);
    let pod = cluster.compile_pod(&object::pod(text)).unwrap();
    cluster.nominate(&pod, &post_filter).unwrap();
    cluster.apply(vec![Delta::DeletePod { key: PodKey::new("default", "a"), uid: None }]);
    assert_eq!(verdicts(&cluster, "low cpu=1 priority=2"), [NO_CPU]);
    assert_eq!(verdicts(&cluster, "other cpu=4 priority=10"), ["ok"]);
    // An update without a nomination leaves the one in memory.
    cluster.apply(vec![Delta::UpsertPod(
        cluster.compile_pod(&object::pod(&format!("{text} label:app=x version=2"))).unwrap(),
    )]);
    assert_eq!(verdicts(&cluster, "low cpu=1 priority=2"), [NO_CPU]);
    assert_eq!(verdicts(&cluster, text), ["ok"]);
}
