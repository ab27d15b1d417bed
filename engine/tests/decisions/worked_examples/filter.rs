//! Sections 1, 2 and 5: gates, filters, messages.

use berth_engine::{Outcome, Plugin, PolicySpec};

use super::{cluster, explain, message, upsert_node, verdicts};
use berth_testing::object;

const UNTOLERATED: &str = "UU: node(s) had untolerated taint(s)";

/// Section 2.6, worked filter, and the first row of section 5.
#[test]
fn five_nodes_without_room() {
    let cluster = cluster(
        &[
            "n0 cpu=2 memory=8Gi pods=10",
            "n1 cpu=4 memory=8Gi pods=10",
            "n2 cpu=4 memory=8Gi pods=10",
            "n3 cpu=4 memory=8Gi pods=10 taint=k=v:NoSchedule",
            "n4 cpu=4 memory=8Gi pods=10 cordoned=true",
        ],
        &["a node=n1 cpu=2", "b node=n2 cpu=2"],
    );
    let cpu = |code: &str| format!("{code}: Insufficient cpu");
    let expected = [
        cpu("UU"),
        cpu("U"),
        cpu("U"),
        UNTOLERATED.to_owned(),
        "UU: node(s) were unschedulable".to_owned(),
    ];
    assert_eq!(verdicts(&cluster, "p cpu=3 memory=1Gi"), expected);
    assert_eq!(
        message(&cluster, "p cpu=3 memory=1Gi"),
        "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient cpu.",
    );
}

/// S-FIT-7, S-FIT-8, S-FIT-10: every failure is reported, and a request that exceeds the whole node is unresolvable.
#[test]
fn every_missing_resource_is_reported() {
    let cluster = cluster(
        &["n1 cpu=4 memory=8Gi pods=9", "n2 cpu=16 memory=8Gi pods=9", "n3 memory=1Ti"],
        &[],
    );
    let expected = [
        "UU: Insufficient cpu, Insufficient memory, Insufficient example.com/gpu",
        "UU: Insufficient memory, Insufficient example.com/gpu",
        "UU: Too many pods, Insufficient cpu, Insufficient example.com/gpu",
    ];
    assert_eq!(verdicts(&cluster, "p cpu=10 memory=100Gi example.com/gpu=2"), expected);
    assert_eq!(verdicts(&cluster, "p memory=1"), ["ok", "ok", "U: Too many pods"]);
}

/// S-FIT-13: a node that shrank below its pods' requests has negative room; S-FIT-8: a pod without requests is not
/// checked.
#[test]
fn an_overcommitted_node_takes_only_what_asks_for_nothing() {
    let cluster = cluster(&["n1 cpu=4 memory=8Gi pods=9"], &["a node=n1 cpu=4"]);
    cluster.apply(vec![upsert_node(&cluster, "n1 cpu=1 memory=8Gi pods=9")]);
    assert_eq!(verdicts(&cluster, "p memory=1Gi cpu=0"), ["ok"]);
    assert_eq!(verdicts(&cluster, "p cpu=1m"), ["U: Insufficient cpu"]);
    assert_eq!(verdicts(&cluster, "p cpu=2"), ["UU: Insufficient cpu"]);
}

/// S-FIT-11 and S-FIT-12: resources that the policy ignores; here a device class's name is an ordinary resource.
#[test]
fn ignored_and_implicit_resources() {
    let device = "deviceclass.resource.kubernetes.io/gpu";
    let cluster = cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[]);
    assert_eq!(
        verdicts(&cluster, &format!("p {device}=1")),
        [format!("UU: Insufficient {device}")]
    );
    for (resources, groups, is_ok) in [
        ("example.com/gpu", "", true),
        ("", "example.com", true),
        ("example.com/fpga", "example", false),
    ] {
        let mut spec = PolicySpec::default();
        spec.node_resources_fit.ignored_resources = vec![resources.to_owned()];
        spec.node_resources_fit.ignored_resource_groups = vec![groups.to_owned()];
        let explained = explain(&cluster, "p example.com/gpu=1", spec).unwrap();
        assert_eq!(
            matches!(explained.decision.outcome, Outcome::Placed(_)),
            is_ok,
            "{resources} {groups}"
        );
    }
}

/// S-UNS-1, S-UNS-2 and the table of section 2.1.
#[test]
fn cordoned_nodes() {
    let cordon = "node.kubernetes.io/unschedulable";
    let node = format!("n1 cpu=4 memory=8Gi pods=9 cordoned=true taint={cordon}=:NoSchedule");
    let cluster = cluster(&[&node], &[]);
    assert_eq!(verdicts(&cluster, "p"), ["UU: node(s) were unschedulable"]);
    for (toleration, expected) in [
        (",Exists,,".to_owned(), "ok"),
        (format!("{cordon},Exists,,NoSchedule"), "ok"),
        (format!("{cordon},Exists,,"), "ok"),
        (format!("{cordon},Exists,,NoExecute"), "UU: node(s) were unschedulable"),
    ] {
        assert_eq!(
            verdicts(&cluster, &format!("p toleration={toleration}")),
            [expected],
            "{toleration}"
        );
    }
}

/// The table of section 2.3; the gate of S-TNT-3 is off.
#[test]
fn taints_and_tolerations() {
    for (taint, pod, expected) in [
        ("k=v:NoSchedule", "p toleration=k,Equal,v,", "ok"),
        ("k=v:NoSchedule", "p toleration=k,Exists,,NoExecute", UNTOLERATED),
        ("k=:NoExecute", "p toleration=k,,,", "ok"),
        ("k=v:NoSchedule", "p toleration=,Exists,,", "ok"),
        ("k=5:NoSchedule", "p toleration=k,Gt,3,", UNTOLERATED),
        ("k=5:NoSchedule", "p toleration=k,Lt,9,", UNTOLERATED),
        ("k=v:PreferNoSchedule", "p", "ok"),
    ] {
        let cluster = cluster(&[&format!("n1 cpu=4 memory=8Gi pods=9 taint={taint}")], &[]);
        assert_eq!(verdicts(&cluster, pod), [expected], "{taint} {pod}");
    }
}

/// The table of section 2.5.
#[test]
fn host_ports() {
    let taken = "U: node(s) didn't have free ports for the requested pod ports";
    for (used, wanted, expected) in [
        ("127.0.0.1/8080/TCP", "127.0.0.1/8080/TCP", taken),
        ("127.0.0.1/8080/TCP", "127.0.0.2/8080/TCP", "ok"),
        ("127.0.0.1/8080/TCP", "0.0.0.0/8080/TCP", taken),
        ("0.0.0.0/8080/TCP", "127.0.0.1/8080/TCP", taken),
        ("0.0.0.0/8080/UDP", "0.0.0.0/8080/TCP", "ok"),
        ("10.0.0.1/80/TCP", "80", taken),
        ("::/80", "10.0.0.1/80", "ok"),
    ] {
        let cluster =
            cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[&format!("a node=n1 port={used}")]);
        assert_eq!(verdicts(&cluster, &format!("p port={wanted}")), [expected], "{used} {wanted}");
    }
}

/// The table of section 2.13.
#[test]
fn declared_features() {
    let missing = "UU: node(s) didn't match Pod's required features";
    for (node, pod, expected) in [
        ("", "p host-network=true", "ok"),
        ("", "p host-network=true host-users=true", "ok"),
        ("", "p host-network=true host-users=false", missing),
        (
            "feature=Unheard feature=UserNamespacesHostNetworkSupport",
            "p host-network=true host-users=false",
            "ok",
        ),
    ] {
        let cluster = cluster(&[&format!("n1 cpu=4 memory=8Gi pods=9 {node}")], &[]);
        assert_eq!(verdicts(&cluster, pod), [expected], "{node} {pod}");
    }
}

/// Section 5: pinned pods (S-PF-1, S-PF-2, S-PF-6, S-NAF-1, S-NAF-2), without the text of PostFilter.
#[test]
fn pinned_pods() {
    let node = |name: &str| format!("{name} cpu=2 memory=8Gi pods=9");
    let (n1, n2, n3) = (node("n1"), node("n2"), node("n3"));
    let three = cluster(&[&n1, &n2, &n3], &["a node=n1 cpu=2"]);
    let left_out = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    let expected = format!("0/3 nodes are available: 1 Insufficient cpu, 2 {left_out}.");
    assert_eq!(message(&three, "p cpu=1 named=n1"), expected);
    assert_eq!(
        verdicts(&three, "p cpu=1 named=n2"),
        [&format!("UU: {left_out}"), "ok", &format!("UU: {left_out}")]
    );
    assert_eq!(
        verdicts(&three, "p cpu=1"),
        ["U: Insufficient cpu", "ok", "ok"],
        "no affinity, nothing left out"
    );
    let two = cluster(&[&n1, &n2], &[]);
    assert_eq!(message(&two, "p named=absent"), format!("0/2 nodes are available: 2 {left_out}."));
    assert_eq!(
        message(&two, "p named=n1 named=n2"),
        "0/2 nodes are available: pod affinity terms conflict."
    );
    assert_eq!(message(&cluster(&[], &[]), "p"), "no nodes available to schedule pods");
}

/// S-Q-5, S-Q-6: a gate comes before everything, even an empty cluster. S-Q-3: an absent priority is 0.
#[test]
fn gates_and_priority() {
    let cluster = cluster(&[], &[]);
    let outcome =
        explain(&cluster, "p gate=g1 gate=g2", PolicySpec::default()).unwrap().decision.outcome;
    let reasons = vec!["waiting for scheduling gates: [g1 g2]".to_owned()];
    assert_eq!(outcome, Outcome::Gated { plugin: Plugin::SchedulingGates, reasons });
    let priority = |text: &str| cluster.compile_pod(&object::pod(text)).unwrap().priority();
    assert_eq!((priority("p"), priority("p priority=-7")), (0, -7));
}
