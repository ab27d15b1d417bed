//! Section 4: preemption.

use berth_engine::{Candidate, CandidateList, Cluster, Nomination, Verdict};
use berth_proto::policy_v1;
use serde_json::json;

use super::{cluster, preempt, upsert};

/// Describes a candidate: `NODE: VICTIM…`, the most important victim first, with `!` for each violated budget.
fn describe(candidate: &Candidate) -> String {
    let victims: Vec<&str> = candidate.victims.iter().map(|victim| &*victim.pod.name).collect();
    let violations = "!".repeat(candidate.n_pdb_violations as usize);
    format!("{}{violations}: {}", candidate.node, victims.join(" "))
}

fn candidates(list: &CandidateList) -> Vec<String> {
    list.candidates.iter().map(describe).collect()
}

/// Returns the chosen candidate.
fn chosen(cluster: &Cluster, pod: &str) -> String {
    let post_filter = preempt(cluster, pod).preemption.post_filter.unwrap();
    describe(&post_filter.chosen.unwrap())
}

/// Adds a budget in `default` over `app=x`.
fn budget(cluster: &Cluster, allowed: i32, disrupted: &[&str]) {
    let evicted: serde_json::Map<_, _> =
        disrupted.iter().map(|name| ((*name).to_owned(), json!("2026-01-01T00:00:00Z"))).collect();
    let budget = json!({
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": evicted},
    });
    upsert!(cluster, policy_v1::PodDisruptionBudget, budget);
}

const POD: &str = "p cpu=2 priority=100";

/// Section 4.4, first row: candidates are equal up to the number of victims, so the later start decides (S-PRE-19).
#[test]
fn the_latest_of_the_earliest_starts() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=9", "n2 cpu=4 memory=8Gi pods=9"];
    let cluster = cluster(
        &nodes,
        &[
            "a node=n1 cpu=2 priority=10 started=1000",
            "b node=n1 cpu=2 priority=20 started=1000",
            "c node=n2 cpu=2 priority=10 started=2000",
            "d node=n2 cpu=2 priority=10 started=3000",
        ],
    );
    let list = preempt(&cluster, POD);
    assert_eq!(candidates(&list), ["n1: a", "n2: d"]);
    assert_eq!(list.best, ["n2".into()]);
    assert_eq!(chosen(&cluster, POD), "n2: d");
    let post_filter = list.preemption.post_filter.unwrap();
    assert_eq!((post_filter.n_candidates, post_filter.n_best), (2, 1));
    assert_eq!(post_filter.nomination, Nomination::Node("n2".into()));
    assert_eq!(post_filter.message, "", "S-ERR-6");
}

/// Second row: the fewest violations count before priority.
#[test]
fn the_fewest_violations() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=9", "n2 cpu=4 memory=8Gi pods=9"];
    let cluster = cluster(
        &nodes,
        &[
            "a node=n1 cpu=2 priority=10 label:app=x",
            "b node=n1 cpu=2 priority=20 label:app=x",
            "c node=n2 cpu=4 priority=50",
        ],
    );
    assert_eq!(chosen(&cluster, POD), "n1: a");
    budget(&cluster, 0, &[]);
    assert_eq!(candidates(&preempt(&cluster, POD)), ["n1!: a", "n2: c"]);
    assert_eq!(chosen(&cluster, POD), "n2: c");
}

/// Third and fourth row: the sum of priorities, each raised by 2³¹, so that fewer victims usually win.
#[test]
fn the_smallest_sum_of_priorities() {
    let of = |second: &str| {
        let nodes = ["n1 cpu=2 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"];
        cluster(
            &nodes,
            &[
                "a node=n1 cpu=1 priority=10",
                "b node=n1 cpu=1 priority=5",
                "c node=n2 cpu=1 priority=10",
                second,
            ],
        )
    };
    assert_eq!(chosen(&of("d node=n2 cpu=1 priority=7"), POD), "n1: a b");
    let nodes = ["n1 cpu=2 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"];
    let uneven = cluster(
        &nodes,
        &[
            "a node=n1 cpu=1 priority=10",
            "b node=n1 cpu=1 priority=-1000",
            "c node=n2 cpu=2 priority=10",
        ],
    );
    assert_eq!(candidates(&preempt(&uneven, POD)), ["n1: a b", "n2: c"]);
    assert_eq!(chosen(&uneven, POD), "n2: c");
}

/// S-PRE-10, S-PRE-11: with equal start times pods keep the node's order, without start times it is reversed.
#[test]
fn equal_pods_of_one_node() {
    let of = |standing: &str| {
        let pods: Vec<String> =
            (0..4).map(|i| format!("v{i} node=n1 cpu=1 priority=1{standing}")).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        cluster(&["n1 cpu=4 memory=8Gi pods=9"], &pods)
    };
    assert_eq!(chosen(&of(" started=1000"), POD), "n1: v2 v3");
    assert_eq!(chosen(&of(""), POD), "n1: v1 v0");
}

/// S-PRE-12: the last pod takes the position of a removed one.
#[test]
fn the_order_of_a_node() {
    let pods = ["x node=n1", "v0 node=n1", "v1 node=n1", "v2 node=n1", "v3 node=n1"];
    let pods = pods.map(|pod| format!("{pod} cpu=1 priority=1 started=1000"));
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    let cluster = cluster(&["n1 cpu=5 memory=8Gi pods=9"], &pods);
    let gone = berth_engine::PodKey::new("default", "x");
    cluster.apply(vec![berth_engine::Delta::DeletePod { key: gone, uid: None }]);
    // The order is v3 v0 v1 v2, and one CPU is free.
    assert_eq!(chosen(&cluster, "p cpu=3 priority=100"), "n1: v1 v2");
}

/// S-PRE-13, S-PRE-14, S-PRE-16: a pod whose eviction violates a budget is spared before a more important one.
#[test]
fn budgets_are_spared_before_priorities() {
    let pods = [
        "a2 node=n1 cpu=1 priority=20 label:app=x",
        "a1 node=n1 cpu=1 priority=10 label:app=x",
        "a3 node=n1 cpu=1 priority=5",
    ];
    let of = |allowed, disrupted: &[&str]| {
        let cluster = cluster(&["n1 cpu=3 memory=8Gi pods=9"], &pods);
        budget(&cluster, allowed, disrupted);
        chosen(&cluster, POD)
    };
    assert_eq!(of(1, &[]), "n1: a2 a3");
    assert_eq!(of(2, &[]), "n1: a1 a3");
    assert_eq!(of(0, &[]), "n1!: a1 a3", "both violate; the one reprieved is the more important");
    assert_eq!(of(0, &["a1", "a2"]), "n1: a1 a3", "they are counted already");
    assert_eq!(of(0, &["a2"]), "n1: a2 a3", "only a1 violates, and is spared");
}

/// S-PRE-3, S-PRE-4: a pod that waits for a victim to terminate does not preempt again.
#[test]
fn eligibility_while_a_victim_leaves() {
    let of = |victim: &str, pod: &str| {
        let nodes = ["n1 cpu=2 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"];
        let victim = format!("a node=n1 cpu=2 {victim}");
        let cluster = cluster(&nodes, &[&victim, "b node=n2 cpu=2 priority=50"]);
        let found = preempt(&cluster, pod).preemption.post_filter.unwrap();
        (found.message, found.nomination)
    };
    let pod = "p cpu=2 priority=100 nominated=n1";
    let waits = "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";
    assert_eq!(of("priority=10 preempted=true", pod), (waits.to_owned(), Nomination::Unchanged));
    let preempts = |node: &str| (String::new(), Nomination::Node(node.into()));
    assert_eq!(of("priority=10 terminating=true", pod), preempts("n1"), "for another cause");
    assert_eq!(of("priority=10 preempted=true", "p cpu=2 priority=100"), preempts("n1"));
    assert_eq!(of("priority=100 preempted=true", pod), preempts("n2"), "not of lower priority");
    // The pod does not wait for a node on which eviction cannot help: the nominated node does not match.
    let elsewhere = "p cpu=2 priority=100 nominated=n1 named=n2";
    assert_eq!(of("priority=10 preempted=true", elsewhere), preempts("n2"));
}

/// S-PRE-22: a node is a candidate too if its victims are already terminating.
#[test]
fn terminating_victims() {
    let cluster = cluster(&["n1 cpu=2 memory=8Gi pods=9"], &["a node=n1 cpu=2 terminating=true"]);
    let list = preempt(&cluster, POD);
    assert!(list.candidates[0].victims[0].is_terminating);
    assert_eq!(list.preemption.post_filter.unwrap().nomination, Nomination::Node("n1".into()));
}

/// Section 4.6: pods of equal priority and pods on other nodes stay, and a pod needed for affinity cannot be evicted.
#[test]
fn what_is_not_done() {
    let nodes = [
        "n1 cpu=2 memory=8Gi pods=9 label:zone=a label:host=n1",
        "n2 cpu=2 memory=8Gi pods=9 label:zone=a label:host=n2",
    ];
    let verdicts = |pods: &[&str], pod: &str| {
        let list = preempt(&cluster(&nodes, pods), pod);
        assert_eq!(list.candidates, []);
        let text = |verdict: &Verdict| match verdict {
            Verdict::Feasible { .. } => panic!("{list:?}"),
            Verdict::Rejected { reasons, .. } => reasons.join(", "),
        };
        list.not_helped.iter().map(|node| text(&node.verdict)).collect::<Vec<_>>()
    };
    let nobody = "No preemption victims found for incoming pod";
    let full = ["a node=n1 cpu=2 priority=100", "b node=n2 cpu=2 priority=100"];
    assert_eq!(verdicts(&full, POD), [nobody, nobody]);
    let zone = ["a node=n1 cpu=2 label:app=x", "b node=n2 cpu=2"];
    let far = "p cpu=2 priority=100 far=zone,app:x";
    let kept_off = "node(s) didn't match pod anti-affinity rules";
    assert_eq!(
        verdicts(&[zone[0], "c node=n2 label:app=x priority=100", zone[1]], far),
        [kept_off, kept_off]
    );
    let friend = ["a node=n1 cpu=2 label:app=x", "b node=n2 cpu=2"];
    let near = "p cpu=2 priority=100 near=host,app:x";
    let lonely = "node(s) didn't match pod affinity rules";
    assert_eq!(verdicts(&friend, near), [lonely, lonely]);
}

/// S-PTS-9: the hooks count pods that the filter does not, here a terminating one.
#[test]
fn a_terminating_pod_is_uncounted_twice() {
    let nodes =
        ["n1 cpu=2 memory=8Gi pods=9 label:zone=a", "n2 cpu=2 memory=8Gi pods=9 label:zone=b"];
    let pods = [
        "a node=n1 cpu=1 label:app=x terminating=true",
        "b node=n1 cpu=1 label:app=x priority=100",
        "c node=n2 cpu=2 priority=100",
    ];
    let pod = "p cpu=1 priority=100 label:app=x spread=zone,1,DoNotSchedule,app:x";
    // Zone a has one counted pod, b none: a skew of 2, until the hook subtracts the uncounted pod too.
    assert_eq!(chosen(&cluster(&nodes, &pods), pod), "n1: a");
}

/// S-PRT-5: if two pods use the identical port, removing one frees it.
#[test]
fn one_port_of_two_pods() {
    let pods = ["a node=n1 port=80 priority=1", "b node=n1 port=80 priority=100"];
    let cluster = cluster(&["n1 cpu=2 memory=8Gi pods=9"], &pods);
    assert_eq!(chosen(&cluster, "p port=80 priority=50"), "n1: a");
}

/// S-VLR-6: hooks compare only the claim's name, so a claim of another namespace counts too.
#[test]
fn claims_are_told_apart_by_name_alone() {
    let pods = ["a node=n1 namespace=n2 claim=c priority=1", "b node=n2 claim=c priority=100"];
    let cluster = cluster(&["n1 cpu=2 memory=8Gi pods=9", "n2 cpu=2 memory=8Gi pods=9"], &pods);
    let claim = json!({
        "metadata": {"name": "c", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]},
    });
    upsert!(cluster, berth_proto::core_v1::PersistentVolumeClaim, claim);
    upsert!(
        cluster,
        berth_proto::core_v1::PersistentVolume,
        json!({"metadata": {"name": "v"}, "spec": {}})
    );
    assert_eq!(chosen(&cluster, "p claim=c priority=50"), "n1: a");
}
