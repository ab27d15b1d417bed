//! Scale-ups: random ones compared with a plain implementation of the rules, and small examples. Rules:
//! S-CAS-1 to S-CAS-8, S-BIN-1 to S-BIN-4.

mod estimator;

use std::sync::Arc;

use berth_engine::{
    Cluster, Delta, EngineError, LeftReason, NodeGroup, OptionRequest, Plugin, Pod, PodKey, Policy,
    ScaleUp, ScaleUpLimit, ScaleUpLimits, ScaleUpOption, ScaleUpRequest, ScaleUpStop,
};
use proptest::prelude::*;

use crate::random::config;
use berth_testing::object;
use estimator::{Estimate, Group, Waiting, World};

/// Words of pods, with their requests in milli-CPU and bytes of memory.
const KINDS: [(&str, (i64, i64)); 11] = [
    ("cpu=500m", (500, 0)),
    ("cpu=1500m memory=1Gi", (1500, 1 << 30)),
    ("cpu=100m memory=3Gi", (100, 3 << 30)),
    ("cpu=100m label:app=lonely far=kubernetes.io/hostname,app:lonely", (100, 0)),
    ("cpu=200m label:app=even spread=zone,1,DoNotSchedule,app:even", (200, 0)),
    ("cpu=300m label:app=flat spread=kubernetes.io/hostname,1,DoNotSchedule,app:flat", (300, 0)),
    ("cpu=300m label:app=flat spread=kubernetes.io/hostname,2,DoNotSchedule,app:flat,3", (300, 0)),
    ("cpu=100m near=zone,app:even", (100, 0)),
    ("cpu=100m label:app=even far=zone,app:lonely", (100, 0)),
    ("cpu=100m toleration=k,Exists,,", (100, 0)),
    ("cpu=100m port=80", (100, 0)),
];

const NODES: [&str; 6] = [
    "cpu=2 memory=4Gi pods=5 label:zone=a",
    "cpu=4 memory=4Gi pods=3 label:zone=b",
    "cpu=1 memory=8Gi pods=9",
    "cpu=4 memory=4Gi pods=9 label:zone=a cordoned=true",
    "cpu=2 memory=8Gi pods=4 label:zone=c taint=k=v:NoSchedule",
    "cpu=1 pods=2 label:zone=b",
];

const TEMPLATES: [(&str, (i64, i64)); 5] = [
    ("cpu=2 memory=4Gi pods=5 label:zone=a", (2000, 4 << 30)),
    ("cpu=4 memory=4Gi pods=9 label:zone=b", (4000, 4 << 30)),
    ("cpu=1 memory=8Gi pods=3", (1000, 8 << 30)),
    ("cpu=1 pods=9 label:zone=z taint=k=v:NoSchedule", (1000, 0)),
    ("cpu=2 memory=4Gi pods=5 label:zone=a cordoned=true", (2000, 4 << 30)),
];

/// Generates a few workloads: kind by number, controller, priority and number of pods.
fn workloads() -> impl Strategy<Value = Vec<(usize, Option<usize>, i32, usize)>> {
    let controller = prop_oneof![Just(None), (0..3_usize).prop_map(Some)];
    proptest::collection::vec((0..KINDS.len(), controller, 0..2, 1..5_usize), 1..6)
}

fn waiting(workloads: &[(usize, Option<usize>, i32, usize)]) -> Vec<Waiting> {
    let mut pods = Vec::new();
    for (kind, controller, priority, n) in workloads {
        for _ in 0..*n {
            let (words, asks) = KINDS[*kind];
            let (name, priority) = (format!("p{}", pods.len()), *priority);
            pods.push(Waiting { name, words, priority, asks, controller: *controller });
        }
    }
    pods
}

type Template = (usize, bool, Option<usize>);

fn groups(cluster: &Cluster, templates: &[Template]) -> (Vec<NodeGroup>, Vec<Group>) {
    let of = |(number, (template, has_daemon, room)): (usize, &Template)| {
        let (words, has) = TEMPLATES[*template];
        let daemons = if *has_daemon { vec!["cpu=100m label:app=even", "port=80"] } else { vec![] };
        // Taints that a new node does not have, and a hostname that no copy keeps.
        let text = format!(
            "template {words} taint=node.kubernetes.io/not-ready=:NoExecute taint=boot=:NoSchedule \
             label:kubernetes.io/hostname=template"
        );
        let group = NodeGroup {
            id: format!("g{number}").into(),
            template: cluster.compile_node(&object::node(&text)).unwrap(),
            template_pods: daemons
                .iter()
                .enumerate()
                .map(|(n, words)| {
                    cluster.compile_pod(&object::pod(&format!("d{n} {words}"))).unwrap()
                })
                .collect(),
            template_slices: Vec::new(),
            size: 2,
            max_size: room.map(|room| room + 2),
            startup_taints: vec!["boot".into()],
        };
        let template = words.to_owned();
        (group, Group { template, has, daemons, room: *room })
    };
    templates.iter().enumerate().map(of).unzip()
}

/// Returns a cluster of nodes with a pod each, which the node might not even admit.
fn cluster_of(nodes: &[(usize, usize)]) -> Cluster {
    let cluster = Cluster::new();
    for (n, (node, pod)) in nodes.iter().enumerate() {
        // One node has the name that a copy of a template would get.
        let name = if n == 3 { "template-node-1".to_owned() } else { format!("n{n}") };
        let text = format!("{name} {} label:kubernetes.io/hostname={name}", NODES[*node]);
        let mut deltas =
            vec![Delta::UpsertNode(cluster.compile_node(&object::node(&text)).unwrap())];
        if let Some((words, _)) = KINDS.get(*pod) {
            let pod = object::pod(&format!("there{n} {words} node={name}"));
            deltas.push(Delta::UpsertPod(cluster.compile_pod(&pod).unwrap()));
        }
        assert_eq!(cluster.apply(deltas).rejected, []);
    }
    cluster
}

fn summary(option: &ScaleUpOption) -> Estimate {
    Estimate {
        nodes: option.nodes.iter().map(|node| node.pods.clone()).collect(),
        on_existing: option.on_existing.iter().map(|(i, node)| (*i, node.to_string())).collect(),
        left: option.left.iter().map(|left| (left.reason.clone(), left.pods.clone())).collect(),
        stop: option.stop,
    }
}

/// Merges groups of pods that are left for the same reason.
fn merged(mut estimate: Estimate) -> Estimate {
    estimate.left.sort();
    let mut left: Vec<(LeftReason, Vec<usize>)> = Vec::new();
    for (reason, pods) in estimate.left {
        match left.last_mut().filter(|(known, _)| *known == reason) {
            Some((_, known)) => known.extend(pods),
            None => left.push((reason, pods)),
        }
    }
    left.iter_mut().for_each(|(_, pods)| pods.sort_unstable());
    Estimate { left, ..estimate }
}

proptest! {
    #![proptest_config(config(96, 61))]

    #[test]
    fn as_the_rules_have_it(
        nodes in proptest::collection::vec((0..NODES.len(), 0..KINDS.len() + 3), 0..7),
        workloads in workloads(),
        templates in proptest::collection::vec(
            (0..TEMPLATES.len(), any::<bool>(), proptest::option::of(0..5_usize)), 1..4),
        max_nodes in proptest::option::of(0..6_usize),
    ) {
        let cluster = cluster_of(&nodes);
        let waiting = waiting(&workloads);
        let pods: Vec<Pod> = waiting.iter().map(|pod| pod.compile(&cluster, None)).collect();
        let (groups, reference) = groups(&cluster, &templates);
        let policy = Policy::default();
        let limits = ScaleUpLimits { nodes: max_nodes, ..ScaleUpLimits::default() };
        let never = || false;
        let request = ScaleUpRequest { limits, ..ScaleUpRequest::new(&pods, &policy, &groups, &never) };
        let answer = cluster.simulate_scale_up(&request).unwrap();

        let mut world = World::of(&cluster);
        let (on_existing, pending) = world.pack(&waiting);
        let names: Vec<(usize, String)> =
            answer.on_existing.iter().map(|(i, node)| (*i, node.to_string())).collect();
        prop_assert_eq!(names, on_existing);
        for (option, group) in answer.options.iter().zip(&reference) {
            let expected = world.estimate(&waiting, &pending, group, max_nodes);
            prop_assert_eq!(summary(option), merged(expected));
        }
        prop_assert_eq!(&cluster.simulate_scale_up(&request).unwrap(), &answer, "remembered or not");
    }
}

const HOST: &str = "label:kubernetes.io/hostname";

fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let node = |text: &&str| Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap());
    let pod = |text: &&str| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap());
    let deltas = nodes.iter().map(node).chain(pods.iter().map(pod)).collect();
    assert_eq!(cluster.apply(deltas).rejected, []);
    cluster
}

fn group(cluster: &Cluster, id: &str, template: &str) -> NodeGroup {
    NodeGroup {
        id: id.into(),
        template: cluster.compile_node(&object::node(&format!("template {template}"))).unwrap(),
        template_pods: Vec::new(),
        template_slices: Vec::new(),
        size: 0,
        max_size: None,
        startup_taints: Vec::new(),
    }
}

/// Compiles `n` pods of one Job.
fn replicas(cluster: &Cluster, name: &str, words: &str, n: usize) -> Vec<Pod> {
    let mut pod = object::pod(&format!("{name} {words}"));
    pod.metadata.as_mut().unwrap().owner_references = vec![owner(name)];
    let pod = cluster.compile_pod(&pod).unwrap();
    let replica = |n| {
        let name = format!("{name}-{n}");
        pod.with_identity(PodKey::new("default", &name), &name)
    };
    (0..n).map(replica).collect()
}

fn owner(uid: &str) -> berth_proto::meta_v1::OwnerReference {
    let (kind, uid) = ("Job".to_owned(), uid.to_owned());
    berth_proto::meta_v1::OwnerReference { kind, uid, controller: Some(true), ..Default::default() }
}

fn simulate(cluster: &Cluster, pods: &[Pod], groups: &[NodeGroup]) -> ScaleUp {
    with(cluster, pods, groups, |request| request).unwrap()
}

fn with(
    cluster: &Cluster,
    pods: &[Pod],
    groups: &[NodeGroup],
    change: impl for<'a> Fn(ScaleUpRequest<'a>) -> ScaleUpRequest<'a>,
) -> Result<ScaleUp, EngineError> {
    let (policy, never) = (Policy::default(), || false);
    cluster.simulate_scale_up(&change(ScaleUpRequest::new(pods, &policy, groups, &never)))
}

fn limited(
    cluster: &Cluster,
    pods: &[Pod],
    group: &NodeGroup,
    limits: ScaleUpLimits,
) -> (usize, ScaleUpStop) {
    let groups = std::slice::from_ref(group);
    let answer = with(cluster, pods, groups, |request| ScaleUpRequest { limits, ..request });
    let option = &answer.unwrap().options[0];
    (option.n_nodes(), option.stop)
}

fn sizes(option: &ScaleUpOption) -> Vec<usize> {
    option.nodes.iter().map(|node| node.pods.len()).collect()
}

/// Returns the plugins for which pods are left, with the number of pods.
fn plugins(option: &ScaleUpOption) -> Vec<(Plugin, usize)> {
    let reasons = option.left.iter().map(|left| match &left.reason {
        LeftReason::Misfit(misfit) => (misfit.plugin, left.pods.len()),
        LeftReason::Limit(limit) => panic!("{limit:?}"),
    });
    reasons.collect()
}

#[test]
fn pods_that_keep_apart_need_a_node_each() {
    let cluster =
        cluster(&["n0 cpu=1 pods=9", "n1 cpu=9 pods=1"], &["x cpu=1 node=n0", "y node=n1"]);
    let pods = replicas(&cluster, "db", "cpu=1 label:app=db far=kubernetes.io/hostname,app:db", 7);
    let answer = simulate(&cluster, &pods, &[group(&cluster, "g", "cpu=4 memory=8Gi pods=20")]);
    assert_eq!((answer.on_existing.len(), answer.unhelped.len()), (0, 0));
    let option = &answer.options[0];
    assert_eq!((sizes(option), option.stop), (vec![1; 7], ScaleUpStop::AllPlaced));
    let pods: Vec<usize> = option.nodes.iter().flat_map(|node| node.pods.clone()).collect();
    assert_eq!(pods, [0, 1, 2, 3, 4, 5, 6]);
    let names: Vec<&str> = option.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names[..2], ["template-node-0", "template-node-1"]);
    assert!((option.waste.cpu - 0.75).abs() < 1e-12 && (option.waste.memory - 1.0).abs() < 1e-12);
    assert_eq!((option.skew(), option.n_placed()), (0, 7));
}

/// Nodes of one zone take no more pods than the skew allows; the empty node that was added last is not reported.
#[test]
fn a_spread_over_zones_ends_with_the_zone() {
    let zones = ["n0 cpu=4 pods=9 label:zone=a", "n1 pods=9 label:zone=b"];
    let words = "cpu=1 label:app=web spread=zone,2,DoNotSchedule,app:web";
    let cluster = cluster(&zones, &["w cpu=4 label:app=web node=n0"]);
    let pods = replicas(&cluster, "web", words, 8);
    let groups = [
        group(&cluster, "in-b", "cpu=2 pods=9 label:zone=b"),
        group(&cluster, "in-a", "cpu=2 pods=9 label:zone=a"),
        group(&cluster, "in-c", "cpu=2 pods=9 label:zone=c"),
    ];
    let answer = simulate(&cluster, &pods, &groups);
    // Zone a has one pod, so zone b may have three.
    assert_eq!(sizes(&answer.options[0]), [2, 1]);
    assert_eq!(plugins(&answer.options[0]), [(Plugin::PodTopologySpread, 5)]);
    assert_eq!(answer.options[0].stop, ScaleUpStop::NothingMoreFits);
    assert_eq!((answer.options[0].skew(), &*answer.options[0].skews[0].topology_key), (2, "zone"));
    assert_eq!(sizes(&answer.options[1]), [1], "zone b stays empty, so zone a may have but two");
    assert_eq!(sizes(&answer.options[2]), [2]);
    assert_eq!(answer.unhelped.len(), 5);
}

/// S-CAS-6: pods that come with a node use its room; taints that a new node does not keep have no effect.
#[test]
fn template_nodes_bring_their_pods_and_lose_their_passing_taints() {
    let cluster = cluster(&[], &[]);
    let template = format!(
        "cpu=2 pods=4 {HOST}=template taint=node.kubernetes.io/not-ready=:NoSchedule taint=boot=:NoSchedule \
         taint=startup-taint.cluster-autoscaler.kubernetes.io/x=y:NoExecute"
    );
    let mut group = group(&cluster, "g", &template);
    let pods = replicas(&cluster, "p", "cpu=600m", 5);
    let answer = simulate(&cluster, &pods, std::slice::from_ref(&group));
    assert_eq!(plugins(&answer.options[0]), [(Plugin::TaintToleration, 5)], "`boot` stays");
    group.startup_taints = vec!["boot".into()];
    let answer = simulate(&cluster, &pods, std::slice::from_ref(&group));
    assert_eq!(sizes(&answer.options[0]), [3, 2]);
    group.template_pods = replicas(&cluster, "daemon", "cpu=900m", 1);
    let answer = simulate(&cluster, &pods, std::slice::from_ref(&group));
    assert_eq!(sizes(&answer.options[0]), [1, 1, 1, 1, 1]);
    assert!((answer.options[0].waste.cpu - 0.7).abs() < 1e-12, "of the node, not of its pods");
    let named = replicas(&cluster, "q", "cpu=1 far=kubernetes.io/hostname,app:x", 1);
    assert_eq!(simulate(&cluster, &named, &[group]).options[0].n_nodes(), 1);
}

/// S-CAS-4: the highest priority first, hints before other nodes, and nodes in rotation.
#[test]
fn existing_nodes_are_filled_first() {
    let nodes = ["n0 cpu=2 pods=9", "n1 cpu=2 pods=9", "n2 cpu=2 pods=9 cordoned=true"];
    let cluster = cluster(&nodes, &["there cpu=1 node=n1"]);
    let mut pods = replicas(&cluster, "low", "cpu=1 priority=1", 3);
    pods.extend(replicas(&cluster, "high", "cpu=1 priority=9", 2));
    pods.push(cluster.compile_pod(&object::pod("there cpu=1")).unwrap());
    let group = group(&cluster, "g", "cpu=4 pods=9");
    let groups = std::slice::from_ref(&group);
    let on = |answer: &ScaleUp| -> Vec<(usize, String)> {
        answer.on_existing.iter().map(|(index, node)| (*index, node.to_string())).collect()
    };
    let placed = |list: &[(usize, &str)]| -> Vec<(usize, String)> {
        list.iter().map(|(index, node)| (*index, (*node).to_owned())).collect()
    };
    let answer = simulate(&cluster, &pods, groups);
    assert_eq!(on(&answer), placed(&[(0, "n0"), (3, "n0"), (4, "n1"), (5, "n1")]));
    assert_eq!(answer.options[0].nodes[0].pods, [1, 2]);
    let hints = [
        (PodKey::new("default", "high-0"), Arc::from("n1")),
        (PodKey::new("default", "high-1"), Arc::from("n2")),
        (PodKey::new("default", "low-0"), Arc::from("gone")),
    ];
    let hinted = |request| {
        let policy: &Policy = &Policy::default();
        let ScaleUpRequest { pods, groups, cancelled, .. } = request;
        cluster.simulate_scale_up(&ScaleUpRequest {
            hints: &hints,
            ..ScaleUpRequest::new(pods, policy, groups, cancelled)
        })
    };
    let (policy, never) = (Policy::default(), || false);
    let answer = hinted(ScaleUpRequest::new(&pods, &policy, groups, &never)).unwrap();
    assert_eq!(on(&answer), placed(&[(0, "n0"), (3, "n1"), (4, "n0"), (5, "n1")]));
}

#[test]
fn limits_end_it_and_are_named() {
    let cluster = cluster(&["n0 cpu=2 memory=4Gi pods=0"], &[]);
    let pods = replicas(&cluster, "p", "cpu=2", 9);
    let mut group = group(&cluster, "g", "cpu=2 memory=4Gi pods=9");
    let none = ScaleUpLimits::default();
    let check = |limits, group: &NodeGroup, n_nodes, limit| {
        let expected = (n_nodes, ScaleUpStop::Limit(limit));
        assert_eq!(limited(&cluster, &pods, group, limits), expected);
    };
    assert_eq!(limited(&cluster, &pods, &group, none), (9, ScaleUpStop::AllPlaced));
    check(ScaleUpLimits { nodes: Some(4), ..none }, &group, 4, ScaleUpLimit::Nodes);
    check(ScaleUpLimits { total_nodes: Some(4), ..none }, &group, 3, ScaleUpLimit::TotalNodes);
    check(ScaleUpLimits { milli_cpu: Some(6_000), ..none }, &group, 2, ScaleUpLimit::Cpu);
    let memory = ScaleUpLimits { memory: Some((4 << 30) * 2 - 1), ..none };
    check(memory, &group, 0, ScaleUpLimit::Memory);
    check(ScaleUpLimits { duration_ms: Some(0), ..none }, &group, 0, ScaleUpLimit::Duration);
    (group.size, group.max_size) = (3, Some(8));
    check(none, &group, 5, ScaleUpLimit::GroupSize);
    (group.size, group.max_size) = (9, Some(8));
    check(none, &group, 0, ScaleUpLimit::GroupSize);
}

/// S-BIN-3: pods with a spread over hosts, for which the newest node is too full, try every other node.
#[test]
fn a_spread_over_hosts_looks_at_every_node() {
    let words = "cpu=1 label:app=web spread=kubernetes.io/hostname,1,DoNotSchedule,app:web";
    let cluster =
        cluster(&[&format!("n0 cpu=2 pods=9 {HOST}=n0")], &["w cpu=1 label:app=web node=n0"]);
    let pods = replicas(&cluster, "web", words, 5);
    let mut group = group(&cluster, "g", "cpu=9 pods=9");
    group.max_size = Some(2);
    let answer = simulate(&cluster, &pods, &[group]);
    // n0 takes the first pod and is full then; each new node takes as many as the others have, plus one.
    let option = &answer.options[0];
    assert_eq!(answer.on_existing.len(), 1);
    assert_eq!((sizes(option), option.stop), (vec![3, 1], ScaleUpStop::AllPlaced));
}

#[test]
fn the_largest_come_first_and_unplaced_pods_are_reported() {
    let cluster = cluster(&[], &[]);
    let mut pods = replicas(&cluster, "small", "cpu=500m", 4);
    pods.extend(replicas(&cluster, "large", "cpu=2 memory=1Gi", 2));
    pods.extend(replicas(&cluster, "huge", "cpu=64", 2));
    pods.extend(replicas(&cluster, "gated", "cpu=1 gate=g", 1));
    pods.extend(replicas(&cluster, "torn", "cpu=1 named=a named=b", 1));
    let groups = [
        group(&cluster, "g", "cpu=3 memory=8Gi pods=9"),
        group(&cluster, "none", "cpu=1 pods=0"),
        group(&cluster, "cordoned", "cpu=90 memory=90Gi pods=90 cordoned=true"),
    ];
    let answer = simulate(&cluster, &pods, &groups);
    let nodes: Vec<&[usize]> = answer.options[0].nodes.iter().map(|node| &node.pods[..]).collect();
    assert_eq!(nodes, [&[4, 0, 2][..], &[5, 1, 3]], "the small ones go round");
    assert_eq!(plugins(&answer.options[0]), [(Plugin::NodeResourcesFit, 2)]);
    assert_eq!(answer.options[0].left[0].pods, [6, 7]);
    let by_reasons = [4, 2, 2].map(|n| (Plugin::NodeResourcesFit, n));
    assert_eq!(plugins(&answer.options[1]), by_reasons, "too many pods, and whatever else");
    assert_eq!(plugins(&answer.options[2]), [(Plugin::NodeUnschedulable, 8)]);
    assert_eq!(answer.options[1].stop, ScaleUpStop::NothingMoreFits);
    let refused: Vec<(usize, &LeftReason)> =
        answer.refused.iter().map(|left| (left.pods[0], &left.reason)).collect();
    let LeftReason::Misfit(gated) = refused[0].1 else { panic!("{refused:?}") };
    assert_eq!((refused[0].0, gated.plugin), (8, Plugin::SchedulingGates));
    assert_eq!(gated.reasons[..], ["waiting for scheduling gates: [g]"]);
    let LeftReason::Misfit(torn) = refused[1].1 else { panic!("{refused:?}") };
    assert_eq!((refused[1].0, torn.plugin), (9, Plugin::NodeAffinity));
    assert_eq!(answer.unhelped, [6, 7]);
}

#[test]
fn nodes_are_split_over_groups_that_are_alike() {
    let cluster = cluster(&[], &[]);
    let template = |zone: &str, memory: &str| {
        format!(
            "cpu=4 memory={memory} pods=9 label:type=m label:topology.kubernetes.io/zone={zone}"
        )
    };
    let mut groups = [
        group(&cluster, "a", &template("a", "16000Mi")),
        group(&cluster, "b", &template("b", "16100Mi")),
        group(&cluster, "c", &template("c", "16000Mi")),
        group(&cluster, "more", &template("a", "17000Mi")),
        group(&cluster, "other", &template("a", "16000Mi").replace("type=m", "type=n")),
        group(&cluster, "tainted", &format!("{} taint=k=v:NoSchedule", template("a", "16000Mi"))),
    ];
    (groups[0].size, groups[1].size, groups[2].size) = (4, 1, 2);
    groups[2].max_size = Some(3);
    let pods = replicas(&cluster, "p", "cpu=3", 7);
    let split = |ignored: &'static [String]| -> Vec<Vec<(usize, usize)>> {
        let (policy, never) = (Policy::default(), || false);
        let request = ScaleUpRequest {
            balance_similar_groups: true,
            balancing_ignored_labels: ignored,
            ..ScaleUpRequest::new(&pods, &policy, &groups, &never)
        };
        let answer = cluster.simulate_scale_up(&request).unwrap();
        answer.options.into_iter().map(|option| option.split).collect()
    };
    // From sizes 4, 1 and 2, the last of at most 3: two for b, then one each for b and c, then b and a in turn.
    let expected = vec![(0, 2), (1, 4), (2, 1)];
    let none = Vec::new();
    let alike = expected.clone();
    assert_eq!(split(&[])[..3], [expected.clone(), alike.clone(), alike]);
    assert_eq!(split(&[])[3..], [none.clone(), none.clone(), none]);
    let ignored: &'static [String] = Box::leak(vec!["type".to_owned()].into());
    assert_eq!(split(ignored)[0].iter().map(|(group, _)| *group).collect::<Vec<_>>(), [0, 1, 2, 4]);
}

/// An option is simulated for one group, without packing first, and with no more nodes than the autoscaler counted.
#[test]
fn an_option_is_simulated_by_itself() {
    let cluster = cluster(&["n0 cpu=64 pods=99"], &[]);
    let mut pods = replicas(&cluster, "p", "cpu=1", 5);
    pods.extend(replicas(&cluster, "gated", "cpu=1 gate=g", 1));
    let group = group(&cluster, "g", "cpu=2 pods=9");
    let (policy, never) = (Policy::default(), || false);
    let ask = |max_nodes| {
        let request = OptionRequest {
            pods: &pods,
            policy: &policy,
            group: &group,
            max_nodes,
            cancelled: &never,
        };
        cluster.simulate_option(&request).unwrap()
    };
    assert_eq!(sizes(&ask(None)), [2, 2, 1]);
    assert_eq!(ask(None).left[0].pods, [5]);
    let option = ask(Some(2));
    assert_eq!(
        (sizes(&option), option.stop),
        (vec![2, 2], ScaleUpStop::Limit(ScaleUpLimit::Nodes))
    );
    assert_eq!(option.left.iter().map(|left| left.pods.clone()).collect::<Vec<_>>(), [[5], [4]]);
}

#[test]
fn nothing_asked_is_nothing_answered() {
    let cluster = cluster(&["n0 cpu=1 pods=9"], &[]);
    let group = group(&cluster, "g", "cpu=1 pods=9");
    let answer = simulate(&cluster, &[], std::slice::from_ref(&group));
    assert_eq!((answer.options.len(), answer.options[0].n_nodes()), (1, 0));
    assert_eq!(
        (answer.options[0].stop, answer.options[0].waste.total()),
        (ScaleUpStop::AllPlaced, 0.0)
    );
    let pods = replicas(&cluster, "p", "cpu=2", 2);
    let answer = simulate(&cluster, &pods, &[]);
    assert_eq!((answer.options.len(), &answer.unhelped[..]), (0, &[0, 1][..]));
    let twice = [pods[0].clone(), pods[0].clone()];
    let error =
        with(&cluster, &twice, std::slice::from_ref(&group), |request| request).unwrap_err();
    assert_eq!(error.to_string(), "`metadata.name`: `default/p-0` stands in the request twice");
    let given_up = with(&cluster, &pods, &[group], |request| ScaleUpRequest {
        cancelled: &|| true,
        ..request
    });
    assert_eq!(given_up.unwrap_err(), EngineError::Cancelled);
}

/// S-CAS-8: concurrent callers get the same answer as a single one, and the cluster stays unchanged.
#[test]
fn callers_do_not_see_each_other() {
    let nodes: Vec<String> =
        (0..300).map(|n| format!("n{n} cpu=2 pods=9 label:zone=z{} {HOST}=n{n}", n % 3)).collect();
    let cluster = cluster(&nodes.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let mut pods = Vec::new();
    for (n, (words, _)) in KINDS.iter().enumerate() {
        pods.extend(replicas(&cluster, &format!("w{n}"), words, 60));
    }
    let groups: Vec<NodeGroup> = TEMPLATES
        .iter()
        .enumerate()
        .map(|(n, (words, _))| group(&cluster, &format!("g{n}"), words))
        .collect();
    let before = cluster.snapshot();
    let alone = simulate(&cluster, &pods, &groups);
    assert!(alone.options.iter().any(|option| option.n_nodes() > 3), "there is something to do");
    std::thread::scope(|scope| {
        let ask = || scope.spawn(|| simulate(&cluster, &pods, &groups));
        for thread in (0..4).map(|_| ask()).collect::<Vec<_>>() {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
    let after = cluster.snapshot();
    assert_eq!(
        (after.generation(), after.n_nodes(), after.n_pods()),
        (before.generation(), 300, 0)
    );
    assert_eq!(alone.generation, after.generation());
}

/// The list of an autoscaler is some seconds old: a pod that is on a node by now needs no other.
#[test]
fn an_option_leaves_out_pods_that_are_on_nodes_by_now() {
    let cluster = cluster(&["n0 cpu=4 pods=9"], &["p-0 cpu=2 node=n0", "p-1 cpu=2 node=gone"]);
    let pods = replicas(&cluster, "p", "cpu=2", 3);
    let (policy, group) = (Policy::default(), group(&cluster, "g", "cpu=4 pods=9"));
    let request = OptionRequest {
        pods: &pods,
        policy: &policy,
        group: &group,
        max_nodes: None,
        cancelled: &|| false,
    };
    let option = cluster.simulate_option(&request).unwrap();
    assert_eq!(option.nodes.iter().map(|node| node.pods.clone()).collect::<Vec<_>>(), [[2]]);
    assert_eq!((option.n_placed(), option.left.len()), (1, 0));
}

/// Pods that have nothing in common are each tried on a node of each group. Meanwhile the caller can cancel.
#[test]
fn a_caller_can_cancel_while_groups_are_tried() {
    let cluster = cluster(&[], &[]);
    let pod = |n: usize| object::pod(&format!("p{n} cpu=9 label:n={n}"));
    let pods: Vec<Pod> = (0..640).map(|n| cluster.compile_pod(&pod(n)).unwrap()).collect();
    let groups = ["a", "b"].map(|id| group(&cluster, id, "cpu=4 pods=9"));
    let policy = Policy::default();
    let ask = |n_patience: usize| {
        let n_asked = std::cell::Cell::new(0);
        let cancelled = || n_asked.replace(n_asked.get() + 1) >= n_patience;
        let request = ScaleUpRequest::new(&pods, &policy, &groups, &cancelled);
        let answer = cluster.simulate_scale_up(&request).map(|answer| answer.unhelped.len());
        (answer, n_asked.get())
    };
    let (answer, n_asked) = ask(usize::MAX);
    assert_eq!(answer, Ok(640));
    // The callback is called ten times while pods are packed, and as often for each group.
    assert!(n_asked >= 30, "{n_asked}");
    assert_eq!(ask(15), (Err(EngineError::Cancelled), 16));
}
