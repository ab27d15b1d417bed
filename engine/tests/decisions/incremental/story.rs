//! Small stories: deltas written as text, followed by the expected state.

use std::collections::BTreeMap;

use berth_engine::{
    Cluster, ClusterState, Delta, Nomination, PlaceRequest, PodKey, PodView, Policy, PostFilter,
    PostFilterCode, TieBreak, Verdict,
};

use crate::naive::objects::AnyObject;
use berth_testing::object;

/// The cluster of a story.
pub(crate) struct Story(pub(crate) Cluster);

impl Story {
    pub(crate) fn new(nodes: &[&str]) -> Story {
        let story = Story(Cluster::new());
        let nodes = nodes
            .iter()
            .map(|text| Delta::UpsertNode(story.0.compile_node(&object::node(text)).unwrap()));
        assert_eq!(story.0.apply(nodes.collect()).rejected, []);
        story
    }

    /// Upserts a pod and returns the refused field, if any.
    pub(crate) fn pod(&self, text: &str) -> Option<String> {
        let pod = self.0.compile_pod(&object::pod(text)).unwrap();
        self.0
            .apply(vec![Delta::UpsertPod(pod)])
            .rejected
            .first()
            .map(|rejected| rejected.error.field.clone())
    }

    pub(crate) fn object(&self, object: impl Into<AnyObject>) {
        let object = self.0.compile_object(object.into().wire()).unwrap();
        assert_eq!(self.0.apply(vec![Delta::UpsertObject(object)]).rejected, []);
    }

    pub(crate) fn delete_pod(&self, name: &str) {
        self.0.apply(vec![Delta::DeletePod { key: PodKey::new("default", name), uid: None }]);
    }

    /// Nominates a pod to a node, in memory only.
    pub(crate) fn promise(&self, text: &str, node: &str) {
        let pod = self.0.compile_pod(&object::pod(text)).unwrap();
        let promise = PostFilter {
            code: PostFilterCode::Success,
            message: String::new(),
            nomination: Nomination::Node(node.into()),
            chosen: None,
            n_candidates: 0,
            n_best: 0,
            cleared_nominations: Vec::new(),
            given_up: Default::default(),
        };
        self.0.nominate(&pod, &promise).unwrap();
    }

    pub(crate) fn replace(&self, nodes: &[&str], pods: &[&str]) -> usize {
        let nodes = nodes.iter().map(|text| self.0.compile_node(&object::node(text)).unwrap());
        let pods = pods.iter().map(|text| self.0.compile_pod(&object::pod(text)).unwrap());
        let state =
            ClusterState { nodes: nodes.collect(), objects: Vec::new(), pods: pods.collect() };
        self.0.replace(state).rejected.len()
    }

    /// Returns `pod@node` for every pod on a node, with `~` for an assumed one.
    pub(crate) fn pods(&self) -> String {
        let pods = self.0.snapshot().pods();
        let text = |view: &PodView| {
            format!("{}{}{}", view.pod.key().name, if view.assumed { "~" } else { "@" }, view.node)
        };
        pods.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn milli_cpu(&self, node: &str) -> i64 {
        let nodes = self.0.snapshot().nodes();
        let view = nodes.into_iter().find(|view| &*view.name == node).unwrap();
        view.requested.iter().find(|(name, _)| &**name == "cpu").map_or(0, |(_, amount)| *amount)
    }

    pub(crate) fn is_feasible(&self, pod: &str) -> BTreeMap<String, bool> {
        let pod = self.0.compile_pod(&object::pod(pod)).unwrap();
        let request = PlaceRequest {
            pod: &pod,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        let nodes = self.0.explain(&request).unwrap().nodes;
        nodes
            .into_iter()
            .map(|n| (n.node.to_string(), matches!(n.verdict, Verdict::Feasible { .. })))
            .collect()
    }
}
