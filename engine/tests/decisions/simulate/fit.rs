//! Fit: its answer equals that of a loop over explanations.

use std::cell::Cell;
use std::cmp::Reverse;

use berth_engine::{
    Cluster, Delta, EngineError, Fit, FitOptions, FitOutcome, FitPod, FitRefusal, FitRequest,
    NodeVerdict, PlaceRequest, Pod, Policy, TieBreak, Verdict,
};
use berth_proto::{core_v1, meta_v1};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use berth_testing::object;

/// Options of a request besides its pods.
#[derive(Clone, Debug)]
struct Ask {
    /// Positions of the candidates among the nodes by name, in order; `None` for all.
    candidates: Option<Vec<usize>>,
    /// The position of a node for each pod, in rotation.
    hints: Vec<Option<usize>>,
    options: FitOptions,
}

const MAX_NODES: usize = 6;

fn asks() -> impl Strategy<Value = Ask> {
    let all: Vec<usize> = (0..MAX_NODES).collect();
    let candidates = proptest::option::of(subsequence(all, 0..=MAX_NODES).prop_shuffle());
    let hints = vec(proptest::option::of(0..MAX_NODES), 1..4);
    let options = (any::<bool>(), any::<bool>(), 0..4_usize);
    (candidates, hints, options).prop_map(|(candidates, hints, options)| {
        let (by_priority, round_robin, max_refusals) = options;
        let options = FitOptions { by_priority, round_robin, skip_similar: false, max_refusals };
        Ask { candidates, hints, options }
    })
}

impl Ask {
    fn names(&self, cluster: &Cluster) -> Vec<String> {
        let nodes = cluster.snapshot().nodes();
        let all: Vec<usize> = (0..nodes.len()).collect();
        let positions = self.candidates.as_ref().unwrap_or(&all).iter();
        positions.filter_map(|at| Some(nodes.get(*at)?.name.to_string())).collect()
    }

    fn hint(&self, i: usize) -> Option<String> {
        self.hints[i % self.hints.len()].map(|node| format!("node-{node}"))
    }
}

/// Generates a crowd without nominations, for which an explanation would reserve room.
fn crowds() -> impl Strategy<Value = Crowd> {
    let crowd = prop_oneof![
        crowd(Company::Plain, 1..MAX_NODES, 0..12),
        crowd(Company::Related, 1..MAX_NODES, 0..12),
    ];
    crowd.prop_map(|mut crowd| {
        crowd.waiting.clear();
        crowd
    })
}

/// Plugin, code and reasons of a node that refuses a pod.
type Refusal = (Option<String>, String, Vec<String>);

/// Lists the refusals of a response, by node.
fn listed(refusal: &FitRefusal) -> Vec<(String, Option<Refusal>)> {
    let refusals = refusal.nodes.iter().map(|(node, refusal)| {
        let plugin = refusal.plugin.map(|plugin| plugin.to_string());
        (node.to_string(), Some((plugin, refusal.code.to_string(), refusal.reasons.clone())))
    });
    refusals.collect()
}

/// Returns why a node refuses a pod in one pass: a cordoned node refuses every pod.
fn refusal(cluster: &Cluster, verdict: &NodeVerdict) -> Option<Refusal> {
    let nodes = cluster.snapshot().nodes();
    let is_cordoned = nodes.iter().any(|node| node.name == verdict.node && node.unschedulable);
    match &verdict.verdict {
        Verdict::Feasible { .. } if is_cordoned => Some((
            Some("NodeUnschedulable".to_owned()),
            "UnschedulableAndUnresolvable".to_owned(),
            vec!["node(s) were unschedulable".to_owned()],
        )),
        Verdict::Feasible { .. } => None,
        // If several filters fail, the first one is the reason, and this filter is the first.
        Verdict::Rejected { plugin: Some(_), .. } if is_cordoned => Some((
            Some("NodeUnschedulable".to_owned()),
            "UnschedulableAndUnresolvable".to_owned(),
            vec!["node(s) were unschedulable".to_owned()],
        )),
        Verdict::Rejected { plugin, code, reasons } => {
            Some((plugin.map(|plugin| plugin.to_string()), code.to_string(), reasons.clone()))
        }
    }
}

proptest! {
    #![proptest_config(config(300, 62))]

    /// S-CAS-1, S-CAS-2
    #[test]
    fn fit_is_a_loop_over_explanations(crowd in crowds(), ask in asks(), n in 1..12_usize) {
        let cluster = crowd.cluster();
        let policy = Policy::default();
        let wires: Vec<core_v1::Pod> = (0..n).map(|i| crowd.incoming_wire(i)).collect();
        let pods: Vec<Pod> = wires.iter().map(|pod| cluster.compile_pod(pod).unwrap()).collect();
        let names = ask.names(&cluster);
        let hints: Vec<Option<String>> = (0..n).map(|i| ask.hint(i)).collect();
        let fit_pods: Vec<FitPod<'_>> = pods
            .iter()
            .zip(&hints)
            .map(|(pod, hint)| FitPod { pod, policy: &policy, hint: hint.as_deref() })
            .collect();
        let nodes = ask.candidates.is_some().then_some(names.as_slice());
        let request = FitRequest { pods: &fit_pods, nodes, options: ask.options, cancelled: &|| false };
        let fit = cluster.fit(&request).unwrap();
        prop_assert_eq!(fit.generation, cluster.snapshot().generation());

        let fork = cluster.fork();
        let mut turns: Vec<usize> = (0..n).collect();
        if ask.options.by_priority {
            turns.sort_by_key(|i| Reverse(pods[*i].priority()));
        }
        let mut next = 0;
        for i in turns {
            let tie_break = TieBreak::Lexicographic;
            let request = PlaceRequest { pod: &pods[i], policy: &policy, tie_break, now: None };
            // An attempt that fails while scoring has no results of the filters.
            let Ok(explained) = fork.explain(&request) else { return Ok(()) };
            let refusals: Vec<_> = names
                .iter()
                .filter_map(|name| explained.nodes.iter().find(|node| *node.node == **name))
                .map(|verdict| (verdict.node.to_string(), refusal(&fork, verdict)))
                .collect();
            let takes = |name: &String| {
                refusals.iter().any(|(node, refusal)| node == name && refusal.is_none())
            };
            let by_hint = hints[i].clone().filter(|hint| names.contains(hint) && takes(hint));
            let from = names.iter().skip(next).chain(names.iter().take(next));
            let chosen = by_hint.clone().or_else(|| from.into_iter().find(|name| takes(name)).cloned());
            match (&fit.results[i], chosen) {
                (Ok(FitOutcome::Fits { node, by_hint: hinted }), Some(chosen)) => {
                    prop_assert_eq!((&**node, *hinted), (chosen.as_str(), by_hint.is_some()));
                    if ask.options.round_robin && by_hint.is_none() {
                        let at = names.iter().position(|name| *name == chosen).unwrap();
                        next = (at + 1) % names.len();
                    }
                    let mut pod = wires[i].clone();
                    pod.spec.get_or_insert_default().node_name = chosen;
                    fork.apply(vec![Delta::UpsertPod(cluster.compile_pod(&pod).unwrap())]);
                }
                (Ok(FitOutcome::Refused(refused)), None) => {
                    prop_assert!(!refused.skipped);
                    let expected: Vec<_> =
                        refusals.iter().take(ask.options.max_refusals).cloned().collect();
                    prop_assert_eq!(listed(refused), expected);
                    let n_refused: u32 = refused.unschedulable.reasons.iter().map(|r| r.n_nodes).sum();
                    let n_expected: usize =
                        refusals.iter().flat_map(|(_, refusal)| refusal).map(|r| r.2.len()).sum();
                    if refused.unschedulable.pre_filter.is_none() {
                        prop_assert_eq!(n_refused as usize, n_expected);
                        prop_assert_eq!(refused.unschedulable.n_nodes as usize, names.len());
                    }
                }
                (found, expected) => prop_assert!(false, "{:?} instead of {:?}", found, expected),
            }
        }
    }
}

fn cluster(nodes: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let node = |text: &&str| Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap());
    let applied = cluster.apply(nodes.iter().map(node).collect());
    assert_eq!(applied.rejected, []);
    cluster
}

fn fit(cluster: &Cluster, pods: &[core_v1::Pod], options: FitOptions) -> Fit {
    let policy = Policy::default();
    let pods: Vec<Pod> = pods.iter().map(|pod| cluster.compile_pod(pod).unwrap()).collect();
    let pods: Vec<FitPod<'_>> =
        pods.iter().map(|pod| FitPod { pod, policy: &policy, hint: None }).collect();
    let request = FitRequest { pods: &pods, nodes: None, options, cancelled: &|| false };
    cluster.fit(&request).unwrap()
}

/// Summarises the answer: the node, `-` for a refused pod, `=` for a skipped one.
fn summary(fit: &Fit) -> String {
    let of = |result: &Result<FitOutcome, EngineError>| match result {
        Ok(FitOutcome::Fits { node, .. }) => node.to_string(),
        Ok(FitOutcome::Refused(refusal)) if refusal.skipped => "=".to_owned(),
        Ok(FitOutcome::Refused(_)) => "-".to_owned(),
        Err(error) => error.to_string(),
    };
    fit.results.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn owned(pod: &str, owner: &str) -> core_v1::Pod {
    let mut pod = object::pod(pod);
    pod.metadata.get_or_insert_default().owner_references.push(meta_v1::OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: owner.to_owned(),
        uid: format!("uid-{owner}"),
        controller: Some(true),
        ..Default::default()
    });
    pod
}

/// S-CAS-5; table 8.3, question 1
#[test]
fn pods_like_one_that_fits_nowhere_are_skipped() {
    let cluster = cluster(&["n cpu=2 pods=100"]);
    let pods = [
        owned("a-0 cpu=1", "a"),
        owned("a-1 cpu=4", "a"),
        owned("b-0 cpu=4", "b"),
        owned("a-2 cpu=4", "a"),
        owned("a-3 cpu=4 label:x=y", "a"),
        owned("a-4 cpu=1", "a"),
        object::pod("bare-0 cpu=4"),
        object::pod("bare-1 cpu=4"),
    ];
    let skipping = FitOptions { skip_similar: true, ..FitOptions::default() };
    let answer = fit(&cluster, &pods, skipping);
    assert_eq!(summary(&answer), "n - - = - n - -");
    assert_eq!((answer.n_controllers_skipped, answer.n_overflowing_controllers), (1, 0));
    let Ok(FitOutcome::Refused(skipped)) = &answer.results[3] else { panic!("{answer:?}") };
    assert_eq!(skipped.unschedulable.message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(summary(&fit(&cluster, &pods, FitOptions::default())), "n - - - - n - -");
    // If a controller has very many kinds of pods, no more than ten are remembered.
    let kinds: Vec<_> = (0..24).map(|i| owned(&format!("a-{i} cpu={}", 4 + i % 12), "a")).collect();
    let answer = fit(&cluster, &kinds, skipping);
    assert_eq!(summary(&answer), format!("{}{}- -", "- ".repeat(12), "= ".repeat(10)));
    assert_eq!((answer.n_controllers_skipped, answer.n_overflowing_controllers), (1, 1));
}

/// S-CAS-1: gates and nominated pods do not count, and cordoned nodes take no pod, whatever it tolerates.
#[test]
fn filters_alone_decide_and_never_for_a_cordoned_node() {
    let cluster = cluster(&["cordoned cpu=8 pods=10 cordoned=true", "n cpu=2 pods=10"]);
    let waiting = cluster.compile_pod(&object::pod("w cpu=2 priority=9 nominated=n")).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertPod(waiting)]).rejected, []);
    let pods = [
        object::pod("a cpu=1 gate=g toleration=,Exists,,"),
        object::pod("b cpu=1"),
        object::pod("b cpu=1"),
        object::pod("c cpu=1"),
    ];
    let answer = fit(&cluster, &pods, FitOptions::default());
    assert_eq!(summary(&answer), "n n pod `default/b` is on node `n` already -");
    let Ok(FitOutcome::Refused(refusal)) = &answer.results[3] else { panic!("{answer:?}") };
    assert_eq!(
        refusal.unschedulable.message,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    );
}

#[test]
fn candidates_are_known_and_named_once() {
    let cluster = cluster(&["a cpu=2 pods=10", "b cpu=2 pods=10"]);
    let check = |names: &[&str], expected: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let options = FitOptions::default();
        let request = FitRequest { pods: &[], nodes: Some(&names), options, cancelled: &|| false };
        assert_eq!(cluster.fit(&request).unwrap_err().to_string(), expected);
    };
    check(&["a", "c"], "`node_names[1]`: the cluster has no node `c`");
    check(&["b", "a", "b"], "`node_names[2]`: `b` stands in the list twice");
}

#[test]
fn whoever_gives_up_gets_the_pods_tried_so_far() {
    let cluster = cluster(&["a cpu=2 pods=10"]);
    let (policy, pod) = (Policy::default(), cluster.compile_pod(&object::pod("p")).unwrap());
    let pods: Vec<Pod> = (0..3)
        .map(|i| pod.with_identity(berth_engine::PodKey::new("default", &format!("p{i}")), ""))
        .collect();
    let pods: Vec<FitPod<'_>> =
        pods.iter().map(|pod| FitPod { pod, policy: &policy, hint: None }).collect();
    let n_asked = Cell::new(0);
    let cancelled = || n_asked.replace(n_asked.get() + 1) >= 2;
    let options = FitOptions::default();
    let request = FitRequest { pods: &pods, nodes: None, options, cancelled: &cancelled };
    let answer = cluster.fit(&request).unwrap();
    assert_eq!(summary(&answer), "a a cancelled before a decision");
}

/// A pod that is on a node is not placed again.
#[test]
fn a_pod_that_is_on_a_node_is_not_tried() {
    let cluster = cluster(&["n cpu=4 pods=9"]);
    let there = ["there cpu=3 node=n", "lost cpu=1 node=gone"];
    let there = there.map(|pod| Delta::UpsertPod(cluster.compile_pod(&object::pod(pod)).unwrap()));
    assert_eq!(cluster.apply(there.into()).rejected, []);
    let pods = ["there cpu=1", "lost cpu=1", "p cpu=1", "p cpu=1"].map(object::pod);
    let answer = fit(&cluster, &pods, FitOptions::default());
    let on = |result: &Result<FitOutcome, EngineError>| match result {
        Ok(FitOutcome::Fits { node, .. }) => node.to_string(),
        Err(EngineError::AlreadyPlaced { node, .. }) => format!("on {node}"),
        other => format!("{other:?}"),
    };
    let found: Vec<String> = answer.results.iter().map(on).collect();
    assert_eq!(found, ["on n", "on gone", "n", "on n"]);
}
