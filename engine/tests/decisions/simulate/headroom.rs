//! Headroom: its answer equals that of placing copies one by one until one is refused.

use std::cell::Cell;
use std::collections::BTreeMap;

use berth_engine::{
    Cluster, Delta, EngineError, Headroom, HeadroomEnd, HeadroomRequest, NodeHeadroom, NodeVerdict,
    Outcome, PlaceRequest, Pod, Policy, TieBreak, Verdict,
};
use berth_proto::core_v1;
use proptest::prelude::*;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::random::policy::policy;
use berth_testing::object;

/// Returns the template of a pod that may be running or pending: without its node, status and identity.
fn template(mut pod: core_v1::Pod) -> core_v1::Pod {
    pod.spec.get_or_insert_default().node_name.clear();
    (pod.status, pod.metadata.get_or_insert_default().deletion_timestamp) = (None, None);
    pod
}

fn ask(
    cluster: &Cluster,
    pod: &core_v1::Pod,
    (policy, tie_break): (&Policy, TieBreak),
    limit: usize,
    nodes: Option<&[String]>,
) -> Result<Headroom, EngineError> {
    let pod = &cluster.compile_pod(pod).unwrap();
    let cancelled = &|| false;
    cluster.headroom(&HeadroomRequest { pod, policy, tie_break, limit, nodes, cancelled })
}

/// Copies by node, why the next copy is refused, and the verdict of each node on it.
type Naive = (BTreeMap<String, usize>, HeadroomEnd, Vec<NodeVerdict>);

/// Assumes copies one by one on a fork until one is refused or there are enough.
fn one_by_one(
    cluster: &Cluster,
    pod: &core_v1::Pod,
    (policy, tie_break): (&Policy, TieBreak),
    limit: usize,
) -> Result<Naive, EngineError> {
    let fork = cluster.fork();
    let mut by_node = BTreeMap::new();
    for n in 0.. {
        let copy = copy(cluster, pod, n);
        let request = PlaceRequest { pod: &copy, policy, tie_break, now: None };
        let next = fork.explain(&request)?;
        let end = match next.decision.outcome {
            Outcome::Placed(_) if n < limit => match fork.assume(&request)?.outcome {
                Outcome::Placed(placement) => {
                    *by_node.entry(placement.node.to_string()).or_default() += 1;
                    continue;
                }
                other => panic!("{other:?}"),
            },
            Outcome::Placed(_) => HeadroomEnd::LimitReached,
            Outcome::Unschedulable(unschedulable) => HeadroomEnd::Unschedulable(unschedulable),
            Outcome::Gated { plugin, reasons } => HeadroomEnd::Gated { plugin, reasons },
        };
        return Ok((by_node, end, next.nodes));
    }
    unreachable!("it ends")
}

fn copy(cluster: &Cluster, pod: &core_v1::Pod, n: usize) -> Pod {
    let mut pod = pod.clone();
    let metadata = pod.metadata.get_or_insert_default();
    (metadata.name, metadata.uid) =
        (format!("{}-{n}", metadata.name), format!("{}-{n}", metadata.uid));
    cluster.compile_pod(&pod).unwrap()
}

fn by_node(headroom: &Headroom) -> BTreeMap<String, usize> {
    let nodes = headroom.nodes.iter().filter(|node| node.n_fit > 0);
    nodes.map(|node| (node.node.to_string(), node.n_fit)).collect()
}

fn is_told_alike(node: &NodeHeadroom, verdict: &NodeVerdict) -> bool {
    node.node == verdict.node
        && match (&node.refusal, &verdict.verdict) {
            (None, Verdict::Feasible { .. }) => true,
            (Some(refusal), Verdict::Rejected { plugin, code, reasons }) => {
                (refusal.plugin, refusal.code, &refusal.reasons) == (*plugin, *code, reasons)
            }
            _ => false,
        }
}

fn companies() -> impl Strategy<Value = Crowd> {
    prop_oneof![
        2 => crowd(Company::Plain, 1..7, 0..12),
        2 => crowd(Company::Related, 1..7, 0..12),
        1 => crowd(Company::Any, 1..7, 0..12),
    ]
}

proptest! {
    #![proptest_config(config(300, 61))]

    /// S-CAS-8: the cluster stays unchanged, too.
    #[test]
    fn headroom_is_placing_copies_one_by_one(
        crowd in companies(),
        policy in policy(),
        seed in any::<u64>(),
        limit in 0..40_usize,
    ) {
        let cluster = crowd.cluster();
        let generation = cluster.snapshot().generation();
        let rules = (&policy, TieBreak::Seeded(seed));
        for i in 0..crowd.incoming.len() {
            let pod = template(crowd.incoming_wire(i));
            let answer = ask(&cluster, &pod, rules, limit, None);
            let expected = one_by_one(&cluster, &pod, rules, limit);
            prop_assert_eq!(cluster.snapshot().generation(), generation);
            let (headroom, (placed, end, verdicts)) = match (answer, expected) {
                (Ok(answer), Ok(expected)) => (answer, expected),
                (answer, expected) => {
                    prop_assert_eq!(answer.err(), expected.err());
                    continue;
                }
            };
            prop_assert_eq!(headroom.generation, generation);
            prop_assert_eq!(headroom.n_fit, placed.values().sum::<usize>());
            prop_assert_eq!(by_node(&headroom), placed);
            prop_assert_eq!(&headroom.end, &end);
            if !verdicts.is_empty() {
                prop_assert_eq!(headroom.nodes.len(), verdicts.len());
                for (node, verdict) in headroom.nodes.iter().zip(&verdicts) {
                    prop_assert!(is_told_alike(node, verdict), "{:?} {:?}", node, verdict);
                }
            }
            prop_assert_eq!(accounted(&headroom), Ok(()));
        }
    }

    /// Naming all nodes equals naming none. If fewer are named, only these take copies, and in the end all of them are
    /// full.
    #[test]
    fn some_nodes_may_take_copies(crowd in companies(), seed in any::<u64>(), kept in any::<u8>()) {
        let cluster = crowd.cluster();
        let policy = Policy::default();
        let rules = (&policy, TieBreak::Seeded(seed));
        let names: Vec<String> = cluster.snapshot().nodes().iter().map(|n| n.name.to_string()).collect();
        let some: Vec<String> =
            names.iter().enumerate().filter(|(i, _)| kept >> i & 1 == 1).map(|(_, n)| n.clone()).collect();
        let pod = template(crowd.incoming_wire(0));
        let Ok(all) = ask(&cluster, &pod, rules, 50, None) else { return Ok(()) };
        prop_assert_eq!(&ask(&cluster, &pod, rules, 50, Some(&names)).unwrap(), &all);
        let of_some = ask(&cluster, &pod, rules, 50, Some(&some)).unwrap();
        let found: Vec<String> = of_some.nodes.iter().map(|node| node.node.to_string()).collect();
        if !of_some.nodes.is_empty() || all.nodes.is_empty() {
            prop_assert_eq!(found, if all.nodes.is_empty() { Vec::new() } else { some });
        }
        prop_assert_eq!(accounted(&of_some), Ok(()));
        let fork = cluster.fork();
        let mut n = 0;
        for node in &of_some.nodes {
            for _ in 0..node.n_fit {
                let mut pod = pod.clone();
                pod.spec.get_or_insert_default().node_name = node.node.to_string();
                fork.apply(vec![Delta::UpsertPod(copy(&cluster, &pod, n))]);
                n += 1;
            }
        }
        // The volumes to which the copies' claims were bound are not in their specs.
        let has_volumes = !pod.spec.as_ref().unwrap().volumes.is_empty();
        let next = &copy(&cluster, &pod, n);
        let Ok(next) = fork.explain(&PlaceRequest { pod: next, policy: rules.0, tie_break: rules.1, now: None })
        else { return Ok(()) };
        for verdict in next.nodes.iter().filter(|_| !has_volumes) {
            if let Some(node) = of_some.nodes.iter().find(|node| node.node == verdict.node) {
                prop_assert!(is_told_alike(node, verdict), "{:?} {:?}", node, verdict);
            }
        }
    }
}

/// Checks that the parts of an answer agree with each other.
fn accounted(headroom: &Headroom) -> Result<(), String> {
    let open = || headroom.nodes.iter().filter(|node| node.is_open);
    if open().count() != headroom.n_open {
        return Err(format!("{} open nodes", headroom.n_open));
    }
    let n_fit: usize = headroom.nodes.iter().map(|node| node.n_fit).sum();
    if n_fit != headroom.n_fit || open().map(|node| node.n_fit).sum::<usize>() != n_fit {
        return Err(format!("{n_fit} copies on nodes"));
    }
    for stop in &headroom.stops {
        let gives = |node: &&NodeHeadroom| {
            node.refusal.as_ref().is_some_and(|refusal| {
                refusal.plugin == stop.plugin && refusal.reasons.contains(&stop.reason)
            })
        };
        let nodes: Vec<_> = open().filter(gives).collect();
        let n_fit = nodes.iter().map(|node| node.n_fit).sum::<usize>();
        if (nodes.len(), n_fit) != (stop.n_nodes, stop.n_fit) || nodes.is_empty() {
            return Err(format!("{stop:?}"));
        }
    }
    for (i, resource) in headroom.resources.iter().enumerate() {
        let after: i64 = open().map(|node| node.free[i]).sum();
        let taken = resource.request * i64::try_from(n_fit).unwrap();
        let n_short = open().filter(|node| node.free[i] < resource.request).count();
        let found = (resource.free_after, resource.free_before, resource.n_nodes_short);
        if found != (after, after + taken, n_short) {
            return Err(format!("{resource:?}"));
        }
    }
    Ok(())
}

fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let node = |text: &&str| Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap());
    let pod = |text: &&str| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap());
    let applied = cluster.apply(nodes.iter().map(node).chain(pods.iter().map(pod)).collect());
    assert_eq!(applied.rejected, []);
    cluster
}

/// Summarises an answer: `NODE:COPIES` for each node with room, and `REASON:NODES:COPIES` for each reason to stop.
fn summary(headroom: &Headroom) -> (String, String) {
    let open = headroom.nodes.iter().filter(|node| node.is_open);
    let nodes: Vec<_> = open.map(|node| format!("{}:{}", node.node, node.n_fit)).collect();
    let stop = |stop: &berth_engine::HeadroomStop| {
        format!("{}:{}:{}", stop.reason, stop.n_nodes, stop.n_fit)
    };
    let stops: Vec<_> = headroom.stops.iter().map(stop).collect();
    (nodes.join(" "), stops.join(", "))
}

#[test]
fn what_runs_out_first_is_told_of_nodes_that_had_room() {
    let cluster = cluster(
        &[
            "big cpu=8 memory=4Gi pods=110",
            "flat cpu=2 memory=32Gi pods=110",
            "full cpu=1 memory=32Gi pods=110",
            "small cpu=64 memory=64Gi pods=3",
            "tainted cpu=64 memory=64Gi pods=110 taint=a=b:NoSchedule",
        ],
        &["there cpu=600m node=full"],
    );
    let policy = Policy::default();
    let rules = (&policy, TieBreak::Lexicographic);
    let pod = object::pod("web cpu=500m memory=1Gi");
    let headroom = ask(&cluster, &pod, rules, 1000, None).unwrap();
    assert_eq!(headroom.n_fit, 11);
    let (nodes, stops) = summary(&headroom);
    assert_eq!(nodes, "big:4 flat:4 small:3");
    assert_eq!(stops, "Insufficient cpu:1:4, Insufficient memory:1:4, Too many pods:1:3");
    let HeadroomEnd::Unschedulable(end) = &headroom.end else { panic!("{headroom:?}") };
    assert_eq!(
        end.message,
        "0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    );
    let alone: Vec<_> = headroom.resources.iter().map(|r| (&*r.name, r.n_fit_alone)).collect();
    assert_eq!(alone, [("cpu", 16 + 4 + 128), ("memory", 4 + 32 + 64), ("pods", 110 + 110 + 3)]);
    let cpu = &headroom.resources[0];
    assert_eq!((cpu.free_before, cpu.free_after, cpu.n_nodes_short), (74_000, 68_500, 1));
    // A maximum of exactly the number that fits leads to the same end.
    let all = ask(&cluster, &pod, rules, 11, None).unwrap();
    assert_eq!((&all.end, all.n_fit), (&headroom.end, 11));
    let fewer = ask(&cluster, &pod, rules, 10, None).unwrap();
    assert_eq!((&fewer.end, fewer.n_fit), (&HeadroomEnd::LimitReached, 10));
}

#[test]
fn copies_stand_in_each_others_way() {
    let nodes = [
        "a1 cpu=8 memory=32Gi pods=110 label:zone=a",
        "a2 cpu=8 memory=32Gi pods=110 label:zone=a",
        "b1 cpu=1 memory=32Gi pods=110 label:zone=b",
    ];
    let cluster = cluster(&nodes, &[]);
    let policy = Policy::default();
    let check = |pod: &str, expected: (&str, &str)| {
        let pod = object::pod(pod);
        let rules = (&policy, TieBreak::Lexicographic);
        let headroom = ask(&cluster, &pod, rules, 100, None).unwrap();
        let (nodes, stops) = summary(&headroom);
        assert_eq!((nodes.as_str(), stops.as_str()), expected, "{pod:?}");
    };
    let ports = "node(s) didn't have free ports for the requested pod ports:3:3";
    check("p cpu=500m port=80", ("a1:1 a2:1 b1:1", ports));
    let far = "node(s) didn't match pod anti-affinity rules";
    check("p cpu=500m label:app=x far=zone,app:x", ("a1:1 a2:0 b1:1", &format!("{far}:3:2")));
    // Zone b takes two copies, so zone a may have three.
    let spread = "node(s) didn't match pod topology spread constraints:2:3, Insufficient cpu:1:2";
    let pod = "p cpu=500m label:app=x spread=zone,1,DoNotSchedule,app:x";
    check(pod, ("a1:2 a2:1 b1:2", spread));
}

#[test]
fn whoever_gives_up_gets_no_answer() {
    let cluster = cluster(&["n cpu=8 pods=1000"], &[]);
    let (policy, pod) = (Policy::default(), cluster.compile_pod(&object::pod("p")).unwrap());
    for limit in [200, 100_000] {
        let n_asked = Cell::new(0);
        let cancelled = || n_asked.replace(n_asked.get() + 1) > 1;
        let answer = cluster.headroom(&HeadroomRequest {
            pod: &pod,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            limit,
            nodes: None,
            cancelled: &cancelled,
        });
        assert_eq!((answer, n_asked.get()), (Err(EngineError::Cancelled), 3));
    }
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let cluster = cluster(&["n cpu=8 pods=10"], &[]);
    let (policy, pod) = (Policy::default(), object::pod("p"));
    let rules = (&policy, TieBreak::Lexicographic);
    let names = ["n".to_owned(), "gone".to_owned()];
    let error = ask(&cluster, &pod, rules, 10, Some(&names)).unwrap_err();
    assert_eq!(error.to_string(), "`node_names[1]`: the cluster has no node `gone`");
}

/// Copies are named like replicas of a StatefulSet, but a replica's nomination is not a copy's.
#[test]
fn a_copy_has_no_nomination_of_a_pending_pod() {
    let cluster = cluster(&["n cpu=4 pods=9"], &[]);
    let mut waiting = object::pod("web-0 cpu=3 priority=10");
    waiting.status.get_or_insert_default().nominated_node_name = "n".to_owned();
    let waiting = cluster.compile_pod(&waiting).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertPod(waiting)]).rejected, []);
    let policy = Policy::default();
    for name in ["other", "web"] {
        let pod = object::pod(&format!("{name} cpu=1"));
        let rules = (&policy, TieBreak::Lexicographic);
        let headroom = ask(&cluster, &pod, rules, 100, None).unwrap();
        assert_eq!(headroom.n_fit, 1, "{name}");
    }
}
