//! The worked examples of the specification, written as text and compared with the numbers in its tables.

mod filter;
mod nomination;
mod pod_affinity;
mod preemption;
mod preemption_message;
mod score;
mod topology_spread;
mod volume;

use berth_engine::{
    CandidateList, Cluster, Delta, EngineError, Explanation, Outcome, PlaceRequest, Plugin, Policy,
    PolicySpec, PreemptOptions, PreemptRequest, TieBreak, Verdict,
};
use berth_testing::object;

/// Adds an object other than a node or a pod, written as JSON.
macro_rules! upsert {
    ($cluster:expr, $kind:ty, $json:expr) => {{
        let object: $kind = serde_json::from_value($json).unwrap();
        let object = $cluster.compile_object(&object).unwrap();
        let applied = $cluster.apply(vec![berth_engine::Delta::UpsertObject(object)]);
        assert_eq!(applied.rejected, []);
    }};
}
use upsert;

/// Returns a cluster of these nodes and pods, applied in one batch.
fn cluster(nodes: &[&str], pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes.iter().map(|text| upsert_node(&cluster, text));
    let pods =
        pods.iter().map(|text| Delta::UpsertPod(cluster.compile_pod(&object::pod(text)).unwrap()));
    assert_eq!(cluster.apply(nodes.chain(pods).collect()).rejected, []);
    cluster
}

fn upsert_node(cluster: &Cluster, text: &str) -> Delta {
    Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap())
}

fn explain(cluster: &Cluster, pod: &str, spec: PolicySpec) -> Result<Explanation, EngineError> {
    let pod = cluster.compile_pod(&object::pod(pod)).unwrap();
    let policy = Policy::new(spec).unwrap();
    cluster.explain(&PlaceRequest {
        pod: &pod,
        policy: &policy,
        tie_break: TieBreak::Lexicographic,
        now: None,
    })
}

/// Makes a whole attempt under the default profile and lists every candidate.
fn preempt(cluster: &Cluster, pod: &str) -> CandidateList {
    let pod = cluster.compile_pod(&object::pod(pod)).unwrap();
    let request = PreemptRequest {
        pod: &pod,
        policy: &Policy::default(),
        tie_break: TieBreak::Lexicographic,
        options: PreemptOptions::default(),
        cancelled: &|| false,
        now: None,
    };
    let list = cluster.list_candidates(&request).unwrap();
    assert_eq!(list.preemption, cluster.preempt(&request).unwrap());
    list
}

/// Returns each node's verdict under the default profile: `ok`, or the code's initials and the reasons.
fn verdicts(cluster: &Cluster, pod: &str) -> Vec<String> {
    let of = |verdict: Verdict| match verdict {
        Verdict::Feasible { .. } => "ok".to_owned(),
        Verdict::Rejected { code, reasons, .. } => {
            let initials: String = code.as_str().matches('U').collect();
            format!("{initials}: {}", reasons.join(", "))
        }
    };
    let nodes = explain(cluster, pod, PolicySpec::default()).unwrap().nodes;
    nodes.into_iter().map(|node| of(node.verdict)).collect()
}

/// Returns (raw, weighted) of a plugin on every feasible node, or nothing if it skips.
fn scores(cluster: &Cluster, pod: &str, plugin: Plugin, spec: PolicySpec) -> Vec<(i64, i64)> {
    let nodes = explain(cluster, pod, spec).unwrap().nodes;
    let scores = nodes.into_iter().filter_map(|node| match node.verdict {
        Verdict::Feasible { scores, .. } => Some(scores),
        Verdict::Rejected { .. } => None,
    });
    scores
        .flatten()
        .filter(|score| score.plugin == plugin)
        .map(|score| (score.raw, score.weighted))
        .collect()
}

/// Returns the raw score of the only node.
fn score(node: &str, pods: &[&str], pod: &str, plugin: Plugin, spec: PolicySpec) -> i64 {
    scores(&cluster(&[node], pods), pod, plugin, spec)[0].0
}

fn message(cluster: &Cluster, pod: &str) -> String {
    match explain(cluster, pod, PolicySpec::default()).unwrap().decision.outcome {
        Outcome::Unschedulable(unschedulable) => unschedulable.message,
        outcome => panic!("{outcome:?}"),
    }
}

/// The default profile: S-PLG-1 to S-PLG-5.
#[test]
fn the_default_profile() {
    let names = |plugins: &[Plugin]| {
        plugins.iter().map(|plugin| plugin.name()).collect::<Vec<_>>().join(" ")
    };
    let spec = PolicySpec::default();
    assert_eq!(
        names(&Plugin::ALL),
        "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts \
         NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread \
         InterPodAffinity DynamicResources DefaultPreemption NodeResourcesBalancedAllocation ImageLocality \
         DefaultBinder NodeDeclaredFeatures",
    );
    assert_eq!(
        names(&spec.filter),
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions \
         NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
         NodeDeclaredFeatures",
    );
    assert_eq!(
        names(&spec.pre_filter),
        "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
         PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
    );
    assert_eq!(names(&spec.pre_enqueue), "SchedulingGates DynamicResources DefaultPreemption");
    assert_eq!(names(&spec.post_filter), "DynamicResources DefaultPreemption");
    assert_eq!(
        names(&spec.pre_score),
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
         NodeResourcesBalancedAllocation",
    );
    let weights: Vec<_> =
        spec.score.iter().map(|(plugin, weight)| format!("{plugin}({weight})")).collect();
    assert_eq!(
        weights.join(" "),
        "TaintToleration(3) NodeAffinity(2) NodeResourcesFit(1) VolumeBinding(1) PodTopologySpread(2) \
         InterPodAffinity(2) DynamicResources(2) NodeResourcesBalancedAllocation(1) ImageLocality(1)",
    );
}
