//! The visible state of a cluster: its contents, and its answers to some requests.

use berth_engine::{
    CandidateList, Cluster, EngineError, Explanation, Generation, NodeView, ObjectKind,
    PlaceRequest, PodKey, Policy, PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;

/// The contents of a cluster and its answers to some requests. Clusters with equal views do not differ in these.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    nodes: Vec<NodeView>,
    /// Key, uid, node, and whether it is assumed.
    pub(crate) pods: Vec<(PodKey, String, String, bool)>,
    pub(crate) n_pending: usize,
    n_orphaned: usize,
    n_objects: usize,
    answers: Vec<(Result<Explanation, EngineError>, Result<CandidateList, EngineError>)>,
}

impl View {
    /// Returns the view, with placement and preemption decisions for `probes`.
    pub(crate) fn of(cluster: &Cluster, probes: &[core_v1::Pod]) -> View {
        let snapshot = cluster.snapshot();
        let pods = snapshot.pods();
        let pods = pods.iter().map(|view| {
            let (key, uid) = (view.pod.key().clone(), view.pod.uid().to_owned());
            (key, uid, view.node.to_string(), view.assumed)
        });
        let kinds = ObjectKind::ALL.iter();
        View {
            nodes: snapshot.nodes(),
            pods: pods.collect(),
            n_pending: snapshot.n_pending(),
            n_orphaned: snapshot.n_orphaned(),
            n_objects: kinds.map(|kind| snapshot.n_objects(*kind)).sum(),
            answers: probes.iter().map(|probe| answers(cluster, probe)).collect(),
        }
    }

    pub(crate) fn node_of(&self, pod: &PodKey) -> Option<&str> {
        self.pods.iter().find(|(key, ..)| key == pod).map(|(_, _, node, _)| node.as_str())
    }
}

/// Returns the cluster's answers without their generations.
fn answers(
    cluster: &Cluster,
    probe: &core_v1::Pod,
) -> (Result<Explanation, EngineError>, Result<CandidateList, EngineError>) {
    let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(11));
    let pod = &cluster.compile_pod(probe).unwrap();
    let request = PlaceRequest { pod, policy, tie_break, now: None };
    let explained = cluster.explain(&request);
    let placed = cluster.place(&request);
    assert_eq!(placed.as_ref().ok(), explained.as_ref().ok().map(|explained| &explained.decision));
    let options = PreemptOptions::default();
    let list = cluster.list_candidates(&PreemptRequest {
        pod,
        policy,
        tie_break,
        options,
        cancelled: &|| false,
        now: None,
    });
    let explained = explained.map(|mut explained| {
        explained.decision.generation = Generation::default();
        explained
    });
    let list = list.map(|mut list| {
        list.preemption.decision.generation = Generation::default();
        list
    });
    (explained, list)
}
