//! Section 3: scores and totals.

use berth_engine::{
    BalancedAllocationArgs, Cluster, Delta, EngineError, Outcome, Plugin, PolicySpec,
    ResourceWeight, ScoringStrategy, ShapePoint, Verdict,
};

use super::{cluster, explain, score, scores, upsert_node};

/// The table of section 3.1 and the totals of section 3.9; NodeResourcesFit is not normalised (S-RS-8).
#[test]
fn least_allocated() {
    let cluster = cluster(
        &[
            "n1 cpu=4 memory=8Gi pods=9",
            "n2 cpu=4 memory=8Gi pods=9",
            "n3 cpu=8 memory=16Gi pods=9",
        ],
        &["a node=n1 cpu=1 memory=1Gi", "b node=n2", "c node=n3 cpu=6 memory=4Gi"],
    );
    let fit = |pod: &str| scores(&cluster, pod, Plugin::NodeResourcesFit, PolicySpec::default());
    assert_eq!(fit("p cpu=500m memory=1Gi"), [(68, 68), (85, 85), (43, 43)]);
    let total = |pod: &str| {
        let nodes = explain(&cluster, pod, PolicySpec::default()).unwrap().nodes;
        match &nodes[0].verdict {
            Verdict::Feasible { total, .. } => *total,
            Verdict::Rejected { .. } => panic!("{:?}", nodes[0]),
        }
    };
    assert_eq!(total("p cpu=500m memory=1Gi"), 443);
    assert_eq!(total("p"), 378);
    let alone = |pods: &[&str], pod: &str| {
        score(
            "n1 cpu=4 memory=8Gi pods=9",
            pods,
            pod,
            Plugin::NodeResourcesFit,
            PolicySpec::default(),
        )
    };
    assert_eq!(alone(&[], "p"), 97);
    assert_eq!(alone(&[], "p level:cpu=2 level:memory=4Gi"), 97);
    assert_eq!(alone(&["a node=n1 level:cpu=2 level:memory=4Gi"], "p cpu=100m memory=200Mi"), 47);
}

/// The other strategies of section 3.1: one node of 4 CPUs and 8 GiB, which uses 1500m and 2 GiB with the pod.
#[test]
fn other_strategies() {
    let resources = |cpu, memory| {
        let weight = |name: &str, weight| ResourceWeight { name: name.to_owned(), weight };
        vec![weight("cpu", cpu), weight("memory", memory)]
    };
    let ratio = |points: &[(i64, i64)], cpu, memory| ScoringStrategy::RequestedToCapacityRatio {
        resources: resources(cpu, memory),
        shape: points
            .iter()
            .map(|&(utilization, score)| ShapePoint { utilization, score })
            .collect(),
    };
    let (rising, falling) = ([(0, 0), (100, 10)], [(0, 10), (50, 5), (100, 0)]);
    let usual = ("cpu=1 memory=1Gi", "p cpu=500m memory=1Gi");
    let over = ("cpu=8500m memory=1Gi", "p cpu=500m memory=1Gi");
    for ((used, pod), scoring, expected) in [
        (usual, ratio(&rising, 1, 1), 31),
        (usual, ratio(&rising, 3, 1), 34),
        (("cpu=0 memory=1Gi", "p cpu=0 memory=1Gi"), ratio(&rising, 1, 1), 25),
        (usual, ratio(&falling, 1, 1), 69),
        (over, ratio(&falling, 1, 1), 75),
        (usual, ScoringStrategy::MostAllocated { resources: resources(1, 1) }, 31),
        (usual, ScoringStrategy::MostAllocated { resources: resources(3, 1) }, 34),
        (over, ScoringStrategy::MostAllocated { resources: resources(1, 1) }, 62),
        (usual, ScoringStrategy::LeastAllocated { resources: resources(3, 1) }, 65),
        (over, ScoringStrategy::LeastAllocated { resources: resources(1, 1) }, 37),
    ] {
        let mut spec = PolicySpec::default();
        // The node may be over its capacity, and must be scored nevertheless.
        spec.filter.clear();
        spec.node_resources_fit.scoring = scoring.clone();
        let used = format!("a node=n1 {used}");
        let got =
            score("n1 cpu=4 memory=8Gi pods=9", &[&used], pod, Plugin::NodeResourcesFit, spec);
        assert_eq!(got, expected, "{used} {scoring:?}");
    }
    let no_memory = score(
        "n1 cpu=4 pods=9",
        &["a node=n1 cpu=1"],
        "p cpu=500m memory=0",
        Plugin::NodeResourcesFit,
        PolicySpec::default(),
    );
    assert_eq!(no_memory, 62);
}

/// The table of section 3.2: the change of balance, where 75 means no change (S-BA-5).
#[test]
fn balanced_allocation() {
    let three = ["cpu", "memory", "ephemeral-storage"];
    for (node, used, pod, expected) in [
        ("cpu=4 memory=8Gi", "cpu=1 memory=1Gi", "cpu=500m memory=1Gi", 75),
        ("cpu=8 memory=8Gi", "", "level:cpu=2 level:memory=4Gi", 68),
        ("cpu=100 memory=100Gi", "", "cpu=100m memory=100Mi", 74),
        ("cpu=100 memory=100Gi", "cpu=100m memory=100Mi", "cpu=100m memory=100Mi", 75),
        (
            "cpu=2 memory=4Gi ephemeral-storage=1Gi",
            "",
            "cpu=1 memory=1Gi ephemeral-storage=1Gi",
            59,
        ),
        ("cpu=4 memory=8Gi", "cpu=2 memory=4Gi", "cpu=4", 62),
        ("cpu=4", "cpu=1", "cpu=1", 75),
        ("cpu=4 memory=8Gi", "", "cpu=4", 50),
        ("cpu=4 memory=8Gi", "cpu=4", "memory=8Gi", 100),
    ] {
        let mut spec = PolicySpec::default();
        spec.filter.clear();
        if node.contains("ephemeral") {
            spec.balanced_allocation =
                BalancedAllocationArgs { resources: three.map(str::to_owned).into() };
        }
        let (node, used, pod) =
            (format!("n1 pods=9 {node}"), format!("a node=n1 {used}"), format!("p {pod}"));
        let got = score(&node, &[&used], &pod, Plugin::NodeResourcesBalancedAllocation, spec);
        assert_eq!(got, expected, "{node} {used} {pod}");
    }
    let skipped = scores(
        &cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[]),
        "p example.com/gpu=0",
        Plugin::NodeResourcesBalancedAllocation,
        PolicySpec::default(),
    );
    assert_eq!(skipped, [], "a best-effort pod (S-BA-1)");
}

/// The examples under S-NA-3 and S-TT-2.
#[test]
fn normalised_scores() {
    let cluster = cluster(
        &[
            "n1 cpu=4 memory=8Gi pods=9 label:zone=a",
            "n2 cpu=4 memory=8Gi pods=9 label:zone=b taint=a=:PreferNoSchedule",
            "n3 cpu=4 memory=8Gi pods=9 taint=a=:PreferNoSchedule taint=b=:PreferNoSchedule taint=c=:PreferNoSchedule",
        ],
        &[],
    );
    let pod = "p prefer=30,zone,In,a prefer=80,zone,In,b prefer=0,zone,Unparsable";
    let affinity = scores(&cluster, pod, Plugin::NodeAffinity, PolicySpec::default());
    assert_eq!(affinity, [(30, 74), (80, 200), (0, 0)]);
    assert_eq!(scores(&cluster, "p", Plugin::NodeAffinity, PolicySpec::default()), []);
    let taints = |pod: &str| scores(&cluster, pod, Plugin::TaintToleration, PolicySpec::default());
    assert_eq!(taints("p"), [(0, 300), (1, 201), (3, 0)]);
    assert_eq!(taints("p toleration=c,Exists,,"), [(0, 300), (1, 150), (2, 0)]);
    assert_eq!(taints("p toleration=,Exists,,"), [(0, 300), (0, 300), (0, 300)]);
    assert_eq!(taints("p toleration=,Exists,,NoSchedule"), [(0, 300), (1, 201), (3, 0)]);
}

/// A term that does not parse fails the attempt, but only if scoring takes place (S-NA-2, S-CYC-6, S-CYC-10).
#[test]
fn a_single_feasible_node_is_not_scored() {
    let (n1, n2) = ("n1 cpu=4 memory=8Gi pods=9", "n2 cpu=4 memory=8Gi pods=9");
    let pod = "p prefer=1,zone,Unparsable";
    let error = explain(&cluster(&[n1, n2], &[]), pod, PolicySpec::default()).unwrap_err();
    assert!(matches!(error, EngineError::SchedulerError { .. }), "{error}");
    let explained = explain(&cluster(&[n1], &[]), pod, PolicySpec::default()).unwrap();
    let Outcome::Placed(placement) = explained.decision.outcome else { panic!("{explained:?}") };
    assert_eq!((&*placement.node, placement.total, placement.n_feasible), ("n1", None, 1));
}

/// The examples under S-IL-5, with the lag of counts (S-SNP-4).
#[test]
fn image_locality() {
    let node = |name: &str, image: &str| format!("{name} cpu=4 memory=8Gi pods=9 {image}");
    let (n1, n2) = (node("n1", "image=app:latest@900Mi"), node("n2", "image=app:latest@900Mi"));
    let (n3, small) = (node("n3", ""), node("n1", "image=app:latest@600Mi"));
    let raw = |cluster: &Cluster| {
        let scores = scores(cluster, "p image=app", Plugin::ImageLocality, PolicySpec::default());
        scores.into_iter().map(|(raw, _)| raw).collect::<Vec<_>>()
    };
    assert_eq!(raw(&cluster(&[&small, &node("n2", ""), &n3], &[])), [18, 0, 0]);
    assert_eq!(raw(&cluster(&[&n1, &n2, &n3], &[])), [59, 59, 0]);
    let late = cluster(&[&n1], &[]);
    late.apply(vec![upsert_node(&late, &n2), upsert_node(&late, &n3)]);
    assert_eq!(raw(&late), [28, 59, 0], "n1 was last refreshed when it was alone");
    late.apply(vec![upsert_node(&late, &n1)]);
    assert_eq!(raw(&late), [59, 59, 0]);
}

/// S-IL-4: the size that the first node reported applies as long as any node has the image.
#[test]
fn the_first_reporter_sets_the_size() {
    let node =
        |name: &str, size: &str| format!("{name} cpu=4 memory=8Gi pods=9 image=app:latest@{size}");
    let cluster = cluster(&[&node("n1", "600Mi")], &[]);
    let raw = || {
        let scores = scores(&cluster, "p image=app", Plugin::ImageLocality, PolicySpec::default());
        scores.into_iter().map(|(raw, _)| raw).collect::<Vec<_>>()
    };
    assert_eq!(raw(), [59]);
    cluster.apply(vec![upsert_node(&cluster, &node("n2", "60Mi"))]);
    cluster.apply(vec![upsert_node(&cluster, "n1 cpu=4 memory=8Gi pods=9")]);
    assert_eq!(raw(), [0, 59], "n2 was last refreshed when both had the image of 600 MiB");
    cluster.apply(vec![upsert_node(&cluster, "n2 cpu=4 memory=8Gi pods=9")]);
    cluster.apply(vec![Delta::DeleteNode("n1".into()), upsert_node(&cluster, &node("n2", "60Mi"))]);
    assert_eq!(
        raw(),
        [3],
        "nobody had it any more, so the size of the new report counts: 100 · 37 / 977"
    );
}
