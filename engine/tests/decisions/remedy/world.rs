//! A cluster as wire objects, which can be changed and decided again, by the engine, built from nothing, and by the
//! naive scheduler.

use berth_engine::{
    Cluster, Delta, EngineError, Explanation, PlaceRequest, PodKey, Policy, RemedyChange, TieBreak,
    Verdict,
};
use berth_proto::core_v1;

use super::{change_node, change_pod};
use crate::naive::attempt::{Attempt, attempt};
use crate::naive::cluster::NaiveCluster;
use crate::naive::objects::AnyObject;
use crate::naive::pod;

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) nodes: Vec<core_v1::Node>,
    pub(crate) objects: Vec<AnyObject>,
    /// Pods on nodes.
    pub(crate) pods: Vec<core_v1::Pod>,
    /// Pods of `pods` that are deleted after all were added: a used port is freed with the first pod that held it
    /// (S-PRT-5).
    pub(crate) gone: Vec<PodKey>,
    /// Pods that are nominated to a node by their status.
    pub(crate) waiting: Vec<core_v1::Pod>,
}

impl World {
    pub(crate) fn engine(&self) -> Cluster {
        let cluster = Cluster::new();
        let nodes = self
            .nodes
            .iter()
            .map(|node| Delta::UpsertNode(cluster.compile_node(node).expect("nodes compile")));
        let objects = self.objects.iter().map(|object| {
            Delta::UpsertObject(cluster.compile_object(object.wire()).expect("objects compile"))
        });
        let pods = self
            .pods
            .iter()
            .chain(&self.waiting)
            .map(|pod| Delta::UpsertPod(cluster.compile_pod(pod).expect("pods compile")));
        let gone = self.gone.iter().map(|key| Delta::DeletePod { key: key.clone(), uid: None });
        let applied = cluster.apply(nodes.chain(objects).chain(pods).chain(gone).collect());
        assert_eq!(applied.rejected, []);
        cluster
    }

    fn naive(&self) -> NaiveCluster {
        let mut cluster = NaiveCluster::default();
        self.nodes.iter().for_each(|node| cluster.upsert_node(node));
        self.objects.iter().for_each(|object| cluster.objects.upsert(object.clone()));
        self.pods.iter().for_each(|pod| cluster.add_pod(pod));
        self.gone.iter().for_each(|key| cluster.delete_pod(&key.namespace, &key.name));
        for pod in &self.waiting {
            let node = pod::nominated_node(pod).expect("it waits for a node");
            cluster.nominations.add(pod, node);
        }
        cluster.refresh();
        cluster
    }

    /// Returns the world and the pod after some changes.
    pub(crate) fn changed(
        &self,
        pod: &core_v1::Pod,
        changes: &[RemedyChange],
    ) -> (World, core_v1::Pod) {
        let (mut world, mut pod) = (self.clone(), pod.clone());
        // Positions refer to the original pod, so the last change is made first.
        for change in changes.iter().rev() {
            if !change_pod::apply(change, &mut pod) {
                change_node::apply(change, &mut world);
            }
        }
        (world, pod)
    }

    /// Returns the feasible nodes in name order, on which the engine and the naive scheduler agree; none if the pod
    /// cannot be decided.
    pub(crate) fn feasible(&self, pod: &core_v1::Pod, policy: &Policy) -> Vec<String> {
        let engine = self.engine();
        let explained = explain(&engine, pod, policy);
        let nodes = explained.map(|explanation| explanation.nodes).unwrap_or_default();
        let is_feasible = |verdict: &Verdict| matches!(verdict, Verdict::Feasible { .. });
        let feasible = nodes.iter().filter(|node| is_feasible(&node.verdict));
        let feasible: Vec<String> = feasible.map(|node| node.node.to_string()).collect();
        let naive: Vec<String> = match attempt(&self.naive(), policy.spec(), pod) {
            Attempt::Decided(account) => {
                let nodes = account.nodes.iter().filter(|node| is_feasible(&node.verdict));
                nodes.map(|node| node.node.to_string()).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(feasible, naive, "the engine and the naive scheduler");
        feasible
    }
}

pub(crate) fn explain(
    cluster: &Cluster,
    pod: &core_v1::Pod,
    policy: &Policy,
) -> Result<Explanation, EngineError> {
    let pod = cluster.compile_pod(pod).expect("pods compile");
    cluster.explain(&PlaceRequest {
        pod: &pod,
        policy,
        tie_break: TieBreak::Lexicographic,
        now: None,
    })
}

/// Checks every remedy: with its changes made to the wire objects, exactly the stated number of nodes is feasible.
pub(crate) fn check_remedies(
    world: &World,
    pod: &core_v1::Pod,
    policy: &Policy,
    explanation: &Explanation,
) {
    for remedy in &explanation.remedies {
        let (changed, pod) = world.changed(pod, &remedy.changes);
        let feasible = changed.feasible(&pod, policy);
        assert_eq!(feasible.len(), remedy.n_nodes as usize, "{remedy:?} opens {feasible:?}");
        let examples: Vec<&str> = remedy.examples.iter().map(|name| &**name).collect();
        assert_eq!(examples, feasible[..feasible.len().min(5)], "{remedy:?}");
        assert!(!examples.is_empty(), "{remedy:?}");
    }
}
