//! Accounts: what each plugin compared agrees with its verdict, on random clusters and on a recorded one. Examples have
//! exact numbers.

mod devices;

use std::collections::BTreeSet;

use berth_engine::{
    Cluster, Compared, Comparison, Delta, EngineError, Explanation, NodeAccount, PlaceRequest,
    Plugin, Policy, TieBreak, Verdict,
};
use berth_proto::core_v1;
use berth_testing::object;
use proptest::test_runner::TestRunner;

use crate::random::config;
use crate::remedy::{cases, recorded_world};
use crate::volumes::storage;

/// An explanation with everything known about every node.
fn explain(
    cluster: &Cluster,
    pod: &core_v1::Pod,
    policy: &Policy,
) -> Result<Explanation, EngineError> {
    let pod = cluster.compile_pod(pod).unwrap();
    let request = PlaceRequest { pod: &pod, policy, tie_break: TieBreak::Lexicographic, now: None };
    cluster.explain_unless(&request, &|_| true, &|| false)
}

/// What a plugin compares is unmet exactly if the plugin refuses the node.
#[test]
fn comparisons_agree_with_verdicts() {
    let mut seen = BTreeSet::new();
    let cell = std::cell::RefCell::new(&mut seen);
    let run = TestRunner::new(config(400, 37)).run(&cases(), |case| {
        let cluster = case.world().engine();
        for template in 0..case.templates.len() {
            let pod = case.pending(template);
            if let Ok(explanation) = explain(&cluster, &pod, &case.policy) {
                check(&explanation, &mut cell.borrow_mut());
            }
        }
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
    // Random pods have claims that the other plugins of volumes never get to see; the recorded cluster has them.
    assert!(seen.len() >= 9, "{seen:?}");
}

/// The same for the pending pods of a recorded cluster.
#[test]
fn comparisons_of_a_recorded_cluster_agree_with_verdicts() {
    let Some((world, pending)) = recorded_world() else { return };
    let (cluster, mut seen) = (world.engine(), BTreeSet::new());
    for pod in &pending {
        if let Ok(explanation) = explain(&cluster, pod, &Policy::default()) {
            check(&explanation, &mut seen);
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

fn check(explanation: &Explanation, seen: &mut BTreeSet<Plugin>) {
    assert_eq!(explanation.nodes.len(), explanation.accounts.len());
    for (node, account) in explanation.nodes.iter().zip(&explanation.accounts) {
        account.shortfalls.iter().chain(&account.checks).for_each(check_numbers);
        let unmet: Vec<&Comparison> = account.checks.iter().filter(|it| !it.is_met).collect();
        match &node.verdict {
            Verdict::Feasible { scores, .. } => {
                assert!(unmet.is_empty() && account.shortfalls.is_empty(), "{account:?}");
                assert_eq!(scores.len(), account.scores.len());
                for (score, account) in scores.iter().zip(&account.scores) {
                    assert_eq!(score.plugin, account.plugin);
                    assert_eq!(score.weighted, account.normalized * account.weight);
                }
            }
            Verdict::Rejected { plugin, .. } => check_refusal(*plugin, account, &unmet, seen),
        }
    }
}

fn check_refusal(
    plugin: Option<Plugin>,
    account: &NodeAccount,
    unmet: &[&Comparison],
    seen: &mut BTreeSet<Plugin>,
) {
    let shortfalls: Vec<&Comparison> = account.shortfalls.iter().collect();
    assert!(!shortfalls.is_empty(), "{account:?}");
    let Some(plugin) = plugin else {
        assert!(shortfalls.iter().all(|it| matches!(it.compared, Compared::NodeName { .. })));
        return;
    };
    assert!(shortfalls.iter().all(|it| it.plugin == plugin && !it.is_met), "{account:?}");
    if let [Comparison { compared: Compared::Nominated { pods }, .. }] = &account.shortfalls[..] {
        assert!(!pods.is_empty() && !account.is_sole);
        return;
    }
    // The first plugin in the filters' order gives the reason.
    assert_eq!(unmet.first().map(|it| it.plugin), Some(plugin), "{account:?}");
    let of_plugin: Vec<&Comparison> =
        unmet.iter().copied().filter(|it| it.plugin == plugin).collect();
    assert_eq!(shortfalls, of_plugin);
    let plugins: BTreeSet<Plugin> = unmet.iter().map(|it| it.plugin).collect();
    assert_eq!(account.is_sole, plugins.len() == 1, "{account:?}");
    seen.insert(plugin);
}

/// Checks that a comparison's numbers say what its verdict says, and that it has words.
fn check_numbers(comparison: &Comparison) {
    let Comparison { is_met, compared, .. } = comparison;
    assert!(!comparison.kind().is_empty() && !comparison.text().is_empty());
    match compared {
        Compared::Resource { resource, asked, free, allocatable, holders, n_holders } => {
            assert_eq!(*is_met, asked <= free, "{comparison:?}");
            if **resource != *"pods" && *n_holders as usize == holders.len() {
                let held: i64 = holders.iter().map(|holder| holder.amount).sum();
                assert_eq!(held, allocatable - free, "{comparison:?}");
            }
            assert!(holders.is_sorted_by(|a, b| a.amount >= b.amount));
        }
        Compared::HostPort { holders, .. } => assert!(!*is_met || holders.is_empty()),
        Compared::Spread { constraint, domain, n_pods, skew } => {
            assert_eq!(*is_met, domain.is_some() && *skew <= constraint.max_skew);
            assert_eq!(*skew, n_pods + i64::from(constraint.counts_itself) - constraint.minimum);
            assert!(constraint.domains.is_sorted_by_key(|(_, n)| *n));
            assert!(constraint.domains.len() <= constraint.n_domains);
        }
        Compared::AntiAffinity { n_pods, pods, .. } => {
            assert_eq!(*is_met, *n_pods == 0);
            assert_eq!(pods.is_empty(), *n_pods == 0);
        }
        Compared::ExistingAntiAffinity { n_terms, pods, .. } => {
            assert_eq!(*is_met, *n_terms == 0);
            assert_eq!(pods.is_empty(), *n_terms == 0);
        }
        Compared::VolumeLimit { asked, in_use, limit, .. } => {
            let fits = limit.is_none_or(|limit| in_use + asked <= limit);
            assert_eq!(*is_met, *asked == 0 || fits, "{comparison:?}");
        }
        Compared::ExclusiveClaim { pods, .. } | Compared::Disk { pods, .. } => {
            assert_eq!(*is_met, pods.is_empty(), "{comparison:?}");
        }
        _ => {}
    }
}

/// What keeps a pod off each node, as text.
fn shortfalls(cluster: &Cluster, pod: &str) -> Vec<String> {
    let explanation = explain(cluster, &object::pod(pod), &Policy::default()).unwrap();
    let texts = |account: &NodeAccount| {
        let texts: Vec<String> = account.shortfalls.iter().map(Comparison::text).collect();
        let alone = if account.is_sole { " (alone)" } else { "" };
        format!("{}{alone}", texts.join("; "))
    };
    explanation.accounts.iter().map(texts).collect()
}

fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|text| cluster.compile_node(&object::node(text)).unwrap());
    let pods = pods.iter().map(|text| cluster.compile_pod(&object::pod(text)).unwrap());
    let deltas = nodes.map(Delta::UpsertNode).chain(pods.map(Delta::UpsertPod)).collect();
    assert_eq!(cluster.apply(deltas).rejected, []);
    cluster
}

/// S-FIT-8: what is asked, free and allocatable, and who holds most.
#[test]
fn resources_are_told_with_their_holders() {
    let cluster = cluster(
        &["a cpu=4 memory=8Gi pods=9 example.com/gpu=4", "b cpu=2 memory=16Gi pods=1"],
        &[
            "big node=a cpu=2 example.com/gpu=2",
            "small node=a cpu=500m example.com/gpu=1",
            "tiny node=a cpu=100m",
            "least node=a cpu=50m",
            "only node=b cpu=1",
        ],
    );
    assert_eq!(
        shortfalls(&cluster, "p cpu=2 example.com/gpu=2"),
        [
            "cpu asks 2: 1.35 free of 4, held by default/big 2, default/small 500m, default/tiny 100m and 1 more; \
             example.com/gpu asks 2: 1 free of 4, held by default/big 2, default/small 1 (alone)",
            "pods asks 1: 0 free of 1; cpu asks 2: 1 free of 2, held by default/only 1; \
             example.com/gpu asks 2: 0 free of 0 (alone)",
        ]
    );
}

/// S-UNS-1, S-TNT-1, S-NAF-4, S-PRT-3: a cordon, a taint, a label, a port; only the last node has one thing in the way.
#[test]
fn nodes_say_what_they_have_instead() {
    let cluster = cluster(
        &[
            "a pods=9 cordoned=true",
            "b pods=9 label:pool=gpu taint=dedicated=edge:NoSchedule",
            "c pods=9 label:pool=gpu",
            "d pods=9",
            "e pods=9 label:pool=web",
        ],
        &["q node=e port=80"],
    );
    let mut pod = object::pod("p port=80");
    let selector = &mut pod.spec.as_mut().unwrap().node_selector;
    selector.insert("pool".to_owned(), "web".to_owned());
    let explanation = explain(&cluster, &pod, &Policy::default()).unwrap();
    let texts = explanation.accounts.iter().map(|account| {
        let texts: Vec<String> = account.shortfalls.iter().map(Comparison::text).collect();
        format!("{}{}", texts.join("; "), if account.is_sole { " (alone)" } else { "" })
    });
    let expected = [
        "cordoned",
        "taint: dedicated=edge:NoSchedule",
        "nodeSelector pool=web: gpu (alone)",
        "nodeSelector pool=web: no such label (alone)",
        "host port 80/TCP: taken, by default/q (alone)",
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}

/// S-PTS-6, S-PTS-7: counts by domain, the minimum and the skew; with fewer domains than minDomains the minimum is 0.
#[test]
fn spread_constraints_are_told_with_all_counts() {
    let nodes = ["a pods=9 label:zone=x", "b pods=9 label:zone=y", "c pods=9"];
    let cluster =
        cluster(&nodes, &["q node=a label:app=w", "r node=a label:app=w", "s node=b label:app=w"]);
    let text = "spread zone at most 1 apart: y 1, x 2";
    assert_eq!(
        shortfalls(&cluster, "p label:app=w spread=zone,1,DoNotSchedule,app:w"),
        [
            format!("{text}: x would be at skew 2 (alone)"),
            String::new(),
            format!("{text}: no such label (alone)")
        ]
    );
    let few = format!("{text}; minDomains 3 is more than 2, so the minimum is 0");
    assert_eq!(
        shortfalls(&cluster, "p label:app=w spread=zone,1,DoNotSchedule,app:w,3"),
        [
            format!("{few}: x would be at skew 3 (alone)"),
            format!("{few}: y would be at skew 2 (alone)"),
            format!("{few}: no such label (alone)"),
        ]
    );
}

/// S-IPA-7: whose affinity and anti-affinity.
#[test]
fn affinity_names_the_other_pods() {
    let nodes = ["a pods=9 label:zone=x", "b pods=9 label:zone=y", "c pods=9 label:zone=x"];
    let cluster = cluster(
        &nodes,
        &[
            "db node=b label:app=db",
            "web node=a label:app=web far=zone,app:p",
            "q node=b label:app=q",
        ],
    );
    assert_eq!(
        shortfalls(&cluster, "p near=zone,app:db"),
        [
            "podAffinity needs pods with `app=db` in its zone: x has none (alone)",
            "",
            "podAffinity needs pods with `app=db` in its zone: x has none (alone)",
        ]
    );
    assert_eq!(
        shortfalls(&cluster, "p label:app=p far=zone,app:q"),
        [
            "others' anti-affinity of pods in its zone: x has 1, as default/web (alone)",
            "podAntiAffinity no pods with `app=q` in its zone: y has 1, as default/q (alone)",
            "others' anti-affinity of pods in its zone: x has 1, as default/web (alone)",
        ]
    );
}

/// S-VLB-4, S-VLB-6, S-VLL-5: which claim, which class, and the limit of a driver with who uses it.
#[test]
fn claims_and_limits_are_named() {
    let cluster = Cluster::new();
    cluster.apply(["n1", "n2"].map(|name| storage::node(&cluster, name)).into());
    storage::upsert(&cluster, &storage::class("local", "kubernetes.io/no-provisioner"));
    storage::upsert(&cluster, &storage::local_volume("v", "n2", "1Gi"));
    storage::upsert(&cluster, &storage::claim("small", "local", "1Gi"));
    storage::upsert(&cluster, &storage::claim("large", "local", "2Gi"));
    let of = |claims: &[&str]| {
        let pod = storage::pod(&cluster, "p", claims);
        let request = PlaceRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        let explanation = cluster.explain(&request).unwrap();
        let texts =
            |account: &NodeAccount| account.shortfalls.iter().map(Comparison::text).collect();
        explanation.accounts.iter().map(texts).collect::<Vec<Vec<String>>>()
    };
    let none = |claim| {
        vec![format!(
            "claim {claim} of class local: no free volume suits, and the class makes none"
        )]
    };
    assert_eq!(of(&["small"]), [none("small"), Vec::new()]);
    assert_eq!(of(&["large"]), [none("large"), none("large")]);
    storage::upsert(&cluster, &storage::bound_claim("small", "local", "v"));
    let far = "claim small of class local: volume v needs a node with host=n2".to_owned();
    assert_eq!(of(&["small"]), [vec![far], Vec::new()]);
    for i in 1..4 {
        let (claim, volume) = (format!("c{i}"), format!("v{i}"));
        storage::upsert(&cluster, &storage::csi_volume(&volume, &volume));
        storage::upsert(&cluster, &storage::bound_claim(&claim, "", &volume));
    }
    storage::upsert(&cluster, &storage::csi_node("n1", &[("csi.example.com", 2)]));
    storage::upsert(&cluster, &storage::csi_node("n2", &[("csi.example.com", 9)]));
    let user = object::pod("q node=n1 claim=c1 claim=c2");
    let user = Delta::UpsertPod(cluster.compile_pod(&user).unwrap());
    assert_eq!(cluster.apply(vec![user]).rejected, []);
    let full =
        "volume limit csi.example.com, 1 more: 2 of 2 in use, most by default/q 2".to_owned();
    assert_eq!(of(&["c3"]), [vec![full], Vec::new()]);
    assert_eq!(of(&["c1", "c2"]), [Vec::<String>::new(), Vec::new()], "they are there already");
}
