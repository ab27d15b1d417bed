//! Scale-in: the choice compared with all others, and each criterion of its order.

use std::collections::BTreeMap;

use berth_engine::{
    Cluster, Delta, EngineError, PodKey, Replicas, ScaleIn, ScaleInReason, ScaleInRequest,
};
use berth_proto::{core_v1, meta_v1, policy_v1};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::random::config;
use berth_testing::object;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// Builds a node with the labels that every node has.
fn node(name: &str, zone: &str, more: &str) -> core_v1::Node {
    object::node(&format!("{name} cpu=64 pods=110 label:{ZONE}={zone} label:{HOST}={name} {more}"))
}

/// Builds a ready pod of a ReplicaSet.
fn replica(text: &str) -> core_v1::Pod {
    let mut pod = object::pod(&format!("{text} label:app=web"));
    let status = pod.status.get_or_insert_default();
    status.conditions.push(core_v1::PodCondition {
        r#type: "Ready".to_owned(),
        status: "True".to_owned(),
        ..Default::default()
    });
    owned_by(pod, "ReplicaSet")
}

fn unready(mut pod: core_v1::Pod) -> core_v1::Pod {
    "False".clone_into(&mut pod.status.as_mut().unwrap().conditions[0].status);
    pod
}

fn owned_by(mut pod: core_v1::Pod, kind: &str) -> core_v1::Pod {
    let owners = &mut pod.metadata.get_or_insert_default().owner_references;
    *owners = vec![meta_v1::OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: "web".to_owned(),
        controller: Some(true),
        ..Default::default()
    }];
    pod
}

fn cluster(nodes: &[core_v1::Node], pods: &[core_v1::Pod]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|node| Delta::UpsertNode(cluster.compile_node(node).unwrap()));
    let pods = pods.iter().map(|pod| Delta::UpsertPod(cluster.compile_pod(pod).unwrap()));
    assert_eq!(cluster.apply(nodes.chain(pods).collect()).rejected, []);
    cluster
}

fn web() -> meta_v1::LabelSelector {
    let match_labels = [("app".to_owned(), "web".to_owned())].into();
    meta_v1::LabelSelector { match_labels, ..Default::default() }
}

fn ask(cluster: &Cluster, n: usize, keys: &[&str]) -> Result<ScaleIn, EngineError> {
    let selector = web();
    let replicas = Replicas::Selected { namespace: "default", selector: &selector };
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let cancelled = &|| false;
    cluster.choose_scale_in(&ScaleInRequest { replicas, n, topology_keys: &keys, cancelled })
}

/// Returns the chosen pods by name, each with its reason.
fn summary(answer: &ScaleIn) -> Vec<(String, ScaleInReason)> {
    answer.pods.iter().map(|pod| (pod.pod.name.to_string(), pod.reason)).collect()
}

fn check(nodes: &[core_v1::Node], pods: &[core_v1::Pod], expected: &[(&str, ScaleInReason)]) {
    let answer = ask(&cluster(nodes, pods), expected.len(), &[]).unwrap();
    let expected: Vec<_> =
        expected.iter().map(|(name, reason)| ((*name).to_owned(), *reason)).collect();
    assert_eq!(summary(&answer), expected);
}

/// Returns how uneven zones and then hosts are, and the skew of zones, for the number of replicas on each host of each
/// zone.
fn unevenness(zones: &[Vec<usize>]) -> (usize, usize, usize) {
    let sums: Vec<usize> = zones.iter().map(|hosts| hosts.iter().sum()).collect();
    let squares = |numbers: &[usize]| numbers.iter().map(|n| n * n).sum::<usize>();
    let hosts: Vec<usize> = zones.concat();
    let skew = sums.iter().max().unwrap() - sums.iter().min().unwrap();
    (squares(&sums), squares(&hosts), skew)
}

/// Returns all ways to remove `n` pods.
fn all_choices(zones: &[Vec<usize>], n: usize) -> Vec<Vec<Vec<usize>>> {
    let mut choices = vec![(zones.to_vec(), n)];
    for zone in 0..zones.len() {
        for host in 0..zones[zone].len() {
            choices = choices
                .into_iter()
                .flat_map(|(zones, n)| {
                    (0..=n.min(zones[zone][host])).map(move |taken| {
                        let mut zones = zones.clone();
                        zones[zone][host] -= taken;
                        (zones, n - taken)
                    })
                })
                .collect();
        }
    }
    choices.into_iter().filter(|(_, n)| *n == 0).map(|(zones, _)| zones).collect()
}

fn left(zones: &[Vec<usize>], answer: &ScaleIn) -> Vec<Vec<usize>> {
    let mut left = zones.to_vec();
    for pod in &answer.pods {
        let (zone, host) = pod.node.strip_prefix('n').unwrap().split_once('-').unwrap();
        left[zone.parse::<usize>().unwrap()][host.parse::<usize>().unwrap()] -= 1;
    }
    left
}

fn spread_out(zones: &[Vec<usize>], more: &str) -> Cluster {
    let (mut nodes, mut pods) = (Vec::new(), Vec::new());
    for (zone, hosts) in zones.iter().enumerate() {
        for (host, n) in hosts.iter().enumerate() {
            let name = format!("n{zone}-{host}");
            nodes.push(node(&name, &format!("z{zone}"), ""));
            pods.extend(
                (0..*n).map(|i| replica(&format!("p{zone}-{host}-{i} node={name} {more}"))),
            );
        }
    }
    cluster(&nodes, &pods)
}

proptest! {
    #![proptest_config(config(200, 63))]

    /// No other choice leaves zones, and then hosts, more even, nor zones with a smaller skew.
    #[test]
    fn nothing_else_is_spread_better(zones in vec(vec(0..4_usize, 1..4), 1..4), n in 1..6_usize) {
        let n_replicas = zones.concat().iter().sum::<usize>();
        prop_assume!(n <= n_replicas);
        let answer = ask(&spread_out(&zones, ""), n, &[]).unwrap();
        let left = left(&zones, &answer);
        let all = all_choices(&zones, n);
        let best = all.iter().map(|zones| unevenness(zones)).min().unwrap();
        prop_assert_eq!(unevenness(&left), best);
        let least_skew = all.iter().map(|zones| unevenness(zones).2).min().unwrap();
        prop_assert_eq!(unevenness(&left).2, least_skew);
        let [by_zone, by_host] = &answer.spread[..] else { panic!("{answer:?}") };
        prop_assert_eq!((&*by_zone.topology_key, &*by_host.topology_key), (ZONE, HOST));
        prop_assert_eq!(by_zone.skew_before, i64::try_from(unevenness(&zones).2).unwrap());
        prop_assert_eq!(by_zone.skew_after, i64::try_from(least_skew).unwrap());
        prop_assert_eq!((by_zone.n_domains, by_host.n_domains), (zones.len(), zones.concat().len()));
        for (domain, before, after) in &by_zone.domains {
            let zone: usize = domain.strip_prefix('z').unwrap().parse().unwrap();
            let sum = |zones: &[Vec<usize>]| i64::try_from(zones[zone].iter().sum::<usize>()).unwrap();
            prop_assert_eq!((*before, *after), (sum(&zones), sum(&left)));
            prop_assert!(before > after);
        }
        let holds = |zones: &[Vec<usize>], zone: usize, host: usize| zones[zone][host] > 0;
        let mut emptied = Vec::new();
        for (zone, hosts) in zones.iter().enumerate() {
            for host in 0..hosts.len() {
                if holds(&zones, zone, host) && !holds(&left, zone, host) {
                    emptied.push(format!("n{zone}-{host}"));
                }
            }
        }
        prop_assert_eq!(answer.emptied_nodes.iter().map(ToString::to_string).collect::<Vec<_>>(), emptied);
    }

    /// A hard constraint is violated no more than by the best choice for it, whatever constraints precede it in the
    /// spec.
    #[test]
    fn a_hard_constraint_comes_first(zones in vec(vec(0..4_usize, 1..4), 1..4), n in 1..6_usize, max_skew in 1..4_usize) {
        prop_assume!(n <= zones.concat().iter().sum::<usize>());
        let soft = format!("spread={ZONE},1,ScheduleAnyway,app:web");
        let hard = format!("spread={HOST},{max_skew},DoNotSchedule,app:web");
        let answer = ask(&spread_out(&zones, &format!("{soft} {hard}")), n, &[]).unwrap();
        let skew = |zones: &[Vec<usize>]| {
            let hosts = zones.concat();
            hosts.iter().max().unwrap() - hosts.iter().min().unwrap()
        };
        let left = skew(&left(&zones, &answer));
        let best = all_choices(&zones, n).iter().map(|zones| skew(zones)).min().unwrap();
        prop_assert_eq!(left.saturating_sub(max_skew), best.saturating_sub(max_skew));
        let [by_host, by_zone] = &answer.spread[..] else { panic!("{answer:?}") };
        prop_assert_eq!((&*by_host.topology_key, by_host.is_hard), (HOST, true));
        prop_assert_eq!((&*by_zone.topology_key, by_zone.is_hard), (ZONE, false));
        prop_assert_eq!(by_host.skew_after, i64::try_from(left).unwrap());
    }
}

#[test]
fn violations_of_hard_constraints_are_mended_before_anything_is_evened_out() {
    let by_zone = format!("spread={ZONE},5,DoNotSchedule,app:web");
    let by_host = format!("spread={HOST},1,DoNotSchedule,app:web");
    // Zone 0 has more replicas, but host n1-0 has two more than any other host.
    let zones = vec![vec![1, 1, 1, 1], vec![3]];
    let answer = ask(&spread_out(&zones, &format!("{by_zone} {by_host}")), 2, &[]).unwrap();
    let expected = ["p1-0-0", "p1-0-1"].map(|name| (name.to_owned(), ScaleInReason::Violation));
    assert_eq!(summary(&answer), expected);
    let skews: Vec<_> = answer.spread.iter().map(|s| (s.skew_before, s.skew_after)).collect();
    assert_eq!(skews, [(1, 3), (2, 0)]);
}

/// S-PTS-6: with fewer domains than the required minimum, the smallest count is 0.
#[test]
fn domains_that_are_missing_count_as_empty() {
    let zones = vec![vec![2], vec![2]];
    for (min_domains, skew) in [(2, 0), (3, 2)] {
        let constraint = format!("spread={ZONE},1,DoNotSchedule,app:web,{min_domains}");
        let answer = ask(&spread_out(&zones, &constraint), 1, &[]).unwrap();
        assert_eq!(answer.spread[0].skew_before, skew);
    }
}

#[test]
fn pods_that_are_not_ready_go_first() {
    let nodes = [node("a", "x", ""), node("b", "x", "")];
    let pods = [
        replica("p0 node=a started=10"),
        replica("p1 node=a started=20"),
        unready(replica("p2 node=b started=10")),
        unready(replica("p3 node=b")),
    ];
    let (not_ready, spread) = (ScaleInReason::NotReady, ScaleInReason::Spread);
    check(&nodes, &pods, &[("p3", not_ready), ("p2", not_ready), ("p1", ScaleInReason::Younger)]);
    // If hosts are equally crowded, the one with the youngest pod is chosen; if pods are equal, the first.
    let ready = [pods[0].clone(), pods[1].clone(), replica("p2 node=b started=30")];
    check(&nodes, &ready, &[("p1", spread), ("p2", ScaleInReason::Younger)]);
}

#[test]
fn nodes_that_leave_and_nodes_that_are_soon_empty_come_next() {
    let nodes = [
        node("a", "x", ""),
        node("b", "x", ""),
        node("c", "x", "cordoned=true"),
        node("d", "x", "taint=ToBeDeletedByClusterAutoscaler=1:NoSchedule"),
    ];
    let pods = [
        replica("pa node=a"),
        object::pod("other node=a"),
        replica("pb node=b"),
        owned_by(object::pod("daemon node=b"), "DaemonSet"),
        owned_by(object::pod("daemon-2 node=b"), "DaemonSet"),
        replica("pc node=c"),
        replica("pd node=d"),
    ];
    let answer = ask(&cluster(&nodes, &pods), 4, &[]).unwrap();
    let expected = [
        ("pc", ScaleInReason::LeavingNode),
        ("pd", ScaleInReason::LeavingNode),
        ("pb", ScaleInReason::EmptierNode),
        ("pa", ScaleInReason::Name),
    ];
    assert_eq!(summary(&answer), expected.map(|(name, reason)| (name.to_owned(), reason)));
    assert_eq!(answer.emptied_nodes.iter().map(|n| &**n).collect::<Vec<_>>(), ["b", "c", "d"]);
    let messages: Vec<&str> = answer.pods.iter().map(|pod| pod.message.as_str()).collect();
    assert_eq!(
        messages[1..3],
        ["node `d` is cordoned or being removed", "nothing else holds node `b`"]
    );
    let costs: Vec<_> = answer.pods.iter().map(|pod| pod.deletion_cost).collect();
    assert_eq!(costs, [Some(-4), Some(-3), Some(-2), Some(-1)]);
}

#[test]
fn disruption_budgets_are_counted() {
    let nodes = [node("a", "x", ""), node("b", "x", "")];
    let pods = [
        replica("p0 node=b label:guarded=yes"),
        replica("p1 node=b"),
        replica("p2 node=b label:guarded=yes"),
    ];
    let cluster = cluster(&nodes, &pods);
    let budget = |n: i32| {
        let metadata = meta_v1::ObjectMeta {
            name: "guard".to_owned(),
            namespace: "default".to_owned(),
            ..Default::default()
        };
        let match_labels = [("guarded".to_owned(), "yes".to_owned())].into();
        let selector = Some(meta_v1::LabelSelector { match_labels, ..Default::default() });
        let budget = policy_v1::PodDisruptionBudget {
            metadata: Some(metadata),
            spec: Some(policy_v1::PodDisruptionBudgetSpec { selector, ..Default::default() }),
            status: Some(policy_v1::PodDisruptionBudgetStatus {
                disruptions_allowed: n,
                ..Default::default()
            }),
        };
        Delta::UpsertObject(cluster.compile_object(&budget).unwrap())
    };
    assert_eq!(cluster.apply(vec![budget(0)]).rejected, []);
    // If all are on one host, the pod that no budget covers is chosen.
    let answer = ask(&cluster, 1, &[HOST]).unwrap();
    assert_eq!(summary(&answer), [("p1".to_owned(), ScaleInReason::Budget)]);
    assert_eq!(answer.budgets, []);
    assert_eq!(cluster.apply(vec![budget(1)]).rejected, []);
    let answer = ask(&cluster, 3, &[HOST]).unwrap();
    let [used] = &answer.budgets[..] else { panic!("{answer:?}") };
    assert_eq!((&*used.name, used.n_moved, used.n_allowed), ("guard", 2, 1));
}

#[test]
fn who_counts_as_a_replica() {
    let nodes = [node("a", "x", "")];
    let pods = [
        replica("p0 node=a"),
        replica("p1 node=a terminating=true"),
        replica("p2"),
        replica("p3 node=a namespace=other"),
        owned_by(replica("p4 node=a"), "StatefulSet"),
    ];
    let cluster = cluster(&nodes, &pods);
    let answer = ask(&cluster, 2, &[]).unwrap();
    assert_eq!((answer.n_replicas, answer.n_terminating), (2, 1));
    let costs: BTreeMap<_, _> =
        answer.pods.iter().map(|pod| (&*pod.pod.name, pod.deletion_cost)).collect();
    assert_eq!(costs, [("p0", Some(-2)), ("p4", None)].into());
    let listed = |keys: &[(&str, &str)]| {
        let keys: Vec<PodKey> = keys.iter().map(|(ns, name)| PodKey::new(ns, name)).collect();
        cluster.choose_scale_in(&ScaleInRequest {
            replicas: Replicas::Listed(&keys),
            n: 1,
            topology_keys: &[],
            cancelled: &|| false,
        })
    };
    let answer = listed(&[("default", "p4"), ("default", "p1")]).unwrap();
    assert_eq!((answer.pods.len(), answer.n_replicas, answer.n_terminating), (1, 1, 1));
    for (keys, expected) in [
        (
            &[("default", "p0"), ("default", "p2")][..],
            "`pods[1]`: no pod `default/p2` is on a node",
        ),
        (
            &[("default", "p0"), ("default", "p0")],
            "`pods[1]`: `default/p0` stands in the list twice",
        ),
        (
            &[("default", "p0"), ("other", "p3")],
            "`pods[1]`: is of namespace `other` and the first of `default`: the pods of a workload are of one",
        ),
        (&[], "`n`: asks to remove 1 of 0 replicas on nodes"),
    ] {
        assert_eq!(listed(keys).unwrap_err().to_string(), expected);
    }
    assert_eq!(
        ask(&cluster, 3, &[]).unwrap_err().to_string(),
        "`n`: asks to remove 3 of 2 replicas on nodes"
    );
    assert_eq!(ask(&cluster, 0, &[]).unwrap_err().to_string(), "`n`: must be greater than 0");
    let selector = meta_v1::LabelSelector::default();
    let everything = ScaleInRequest {
        replicas: Replicas::Selected { namespace: "default", selector: &selector },
        n: 1,
        topology_keys: &[],
        cancelled: &|| false,
    };
    let error = cluster.choose_scale_in(&everything).unwrap_err().to_string();
    assert!(error.starts_with("`selector`: must have at least one requirement"), "{error}");
}

/// The removal of a replica that does not count for the emptiness of its node does not empty a node with another pod.
#[test]
fn a_node_is_empty_when_nothing_holds_it() {
    let nodes = [node("a", "x", ""), node("b", "x", "")];
    let mark = |mut pod: core_v1::Pod| {
        let annotations = &mut pod.metadata.get_or_insert_default().annotations;
        let key = "cluster-autoscaler.kubernetes.io/daemonset-pod".to_owned();
        annotations.insert(key, "true".to_owned());
        pod
    };
    let pods =
        [object::pod("other node=a"), mark(replica("p0 node=a")), mark(replica("p1 node=b"))];
    let answer = ask(&cluster(&nodes, &pods), 2, &[]).unwrap();
    assert_eq!(answer.emptied_nodes.iter().map(|n| &**n).collect::<Vec<_>>(), ["b"]);
}

/// Updates of a feed without resource versions count as well.
#[test]
fn readiness_counts_as_last_reported() {
    let nodes = [node("a", "x", ""), node("b", "x", "")];
    let pods = [replica("p0 node=a"), replica("p1 node=b")];
    let cluster = cluster(&nodes, &pods);
    let pod = cluster.compile_pod(&unready(pods[1].clone())).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
    let answer = ask(&cluster, 1, &[]).unwrap();
    assert_eq!(summary(&answer), [("p1".to_owned(), ScaleInReason::NotReady)]);
}

#[test]
fn topology_keys_are_few_and_known() {
    let cluster = cluster(&[node("a", "x", "")], &[replica("p0 node=a")]);
    let check = |keys: &[&str], expected: &str| {
        assert_eq!(ask(&cluster, 1, keys).unwrap_err().to_string(), expected);
    };
    check(&[HOST, "rack"], "`topology_keys[1]`: no node has a label `rack`");
    check(&[HOST, HOST], &format!("`topology_keys[1]`: `{HOST}` stands in the list twice"));
    check(&[HOST; 17], "`topology_keys`: has 17 labels, more than 16");
}
