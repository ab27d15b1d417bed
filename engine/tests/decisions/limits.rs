//! Values that are too large, given twice or out of range: W-QTY-6, S-CCH-2 and the bounds of a host port.

use berth_engine::{
    BatchRequest, Cluster, Delta, EngineError, Outcome, PlaceRequest, Policy, TieBreak,
};
use berth_testing::object::{node, pod};

fn cluster(nodes: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let upsert = |text: &&str| Delta::UpsertNode(cluster.compile_node(&node(text)).unwrap());
    assert!(cluster.apply(nodes.iter().map(upsert).collect()).rejected.is_empty());
    cluster
}

fn message(cluster: &Cluster, text: &str) -> String {
    let pod = cluster.compile_pod(&pod(text)).unwrap();
    let policy = Policy::default();
    let request =
        PlaceRequest { pod: &pod, policy: &policy, tie_break: TieBreak::Lexicographic, now: None };
    match cluster.place(&request).unwrap().outcome {
        Outcome::Placed(placement) => placement.node.to_string(),
        Outcome::Unschedulable(unschedulable) => unschedulable.message,
        Outcome::Gated { .. } => panic!("not gated"),
    }
}

/// Amounts of petabytes are compared exactly; those past an exbibyte are saturated (W-QTY-6).
#[test]
fn large_amounts_are_compared() {
    let cluster = cluster(&["n1 cpu=4 memory=10P pods=10"]);
    assert_eq!(message(&cluster, "p cpu=1 memory=10P"), "n1");
    assert_eq!(
        message(&cluster, "p cpu=1 memory=15P"),
        "0/1 nodes are available: 1 Insufficient memory."
    );
    assert_eq!(
        message(&cluster, "p cpu=1 memory=7E"),
        "0/1 nodes are available: 1 Insufficient memory."
    );
}

/// Sums of a node stay within 64 bits: a pod that would exceed them is refused, whether it comes before or after its
/// node.
#[test]
fn sums_stay_in_range() {
    let cluster = cluster(&["n1 cpu=4 memory=1Gi pods=110"]);
    let pods = |range: std::ops::Range<usize>, node: &str| -> Vec<Delta> {
        let text = |i| format!("{node}-p{i} memory=1Ei node={node}");
        range.map(|i| Delta::UpsertPod(cluster.compile_pod(&pod(&text(i))).unwrap())).collect()
    };
    let applied = cluster.apply(pods(0..6, "n1"));
    let refused: Vec<_> =
        applied.rejected.iter().map(|r| (r.index, r.error.field.as_str())).collect();
    assert_eq!(refused, [(4, "spec"), (5, "spec")]);
    assert_eq!(cluster.snapshot().n_pods(), 4);
    cluster.apply(pods(0..6, "n2"));
    cluster.apply(vec![Delta::UpsertNode(
        cluster.compile_node(&node("n2 memory=1Gi pods=110")).unwrap(),
    )]);
    let snapshot = cluster.snapshot();
    assert_eq!((snapshot.n_pods(), snapshot.n_orphaned()), (8, 2));
}

/// A refused update leaves the pod as it was.
#[test]
fn a_refused_update_loses_nothing() {
    let cluster = cluster(&["n1 cpu=4 memory=1Gi pods=110"]);
    let upsert = |text: &str| Delta::UpsertPod(cluster.compile_pod(&pod(text)).unwrap());
    let filler = |i| upsert(&format!("filler-{i} memory=1Ei node=n1"));
    cluster.apply((0..3).map(filler).chain([upsert("p cpu=1 memory=1Gi node=n1")]).collect());
    let before = cluster.snapshot().nodes();
    let refused = cluster.apply(vec![upsert("p cpu=2 memory=1Ei node=n1")]).rejected;
    assert_eq!(refused.len(), 1);
    assert_eq!(cluster.snapshot().nodes(), before);
    assert_eq!(cluster.snapshot().n_pods(), 4);
}

/// A pod that a dry-run batch has placed stays on its node for the rest of the batch (S-CCH-2), as if assumed.
#[test]
fn a_batch_places_a_pod_once() {
    for assume in [false, true] {
        let cluster = cluster(&["n1 cpu=4 memory=1Gi pods=10"]);
        let pod = cluster.compile_pod(&pod("p cpu=1")).unwrap();
        let policy = Policy::default();
        let tie_break = TieBreak::Lexicographic;
        let results = cluster
            .place_batch(&BatchRequest {
                pods: &[pod.clone(), pod],
                policy: &policy,
                tie_break,
                assume,
                gang: None,
                cancelled: &|| false,
                now: None,
            })
            .results;
        assert!(matches!(results[0].as_ref().unwrap().outcome, Outcome::Placed(_)));
        assert!(matches!(results[1], Err(EngineError::AlreadyPlaced { .. })), "{:?}", results[1]);
    }
}

/// A host port that is out of range is refused, and the message names its field.
#[test]
fn host_ports_have_a_range() {
    let cluster = Cluster::new();
    for port in ["65536", "-1"] {
        let error = cluster.compile_pod(&pod(&format!("p port={port}"))).unwrap_err();
        assert_eq!(error.field, "spec.containers[0].ports[0].hostPort");
    }
    assert!(cluster.compile_pod(&pod("p port=65535")).is_ok());
}
