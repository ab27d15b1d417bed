//! Sightings: what the cluster shows of one pod or node, for checking what others claim of it.

use std::sync::Arc;

use super::Cluster;
use crate::model::PodKey;
use crate::snapshot::Snapshot;

/// A pod as the cluster has it. Pods that have ended are not in the cluster (S-Q-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSighting {
    /// `metadata.uid`, empty if there is none.
    pub uid: Arc<str>,
    /// Name of the pod's node; `None` for a pending pod.
    pub node: Option<Arc<str>>,
    /// Whether the pod was placed by Berth and no feed has confirmed it yet.
    pub is_assumed: bool,
}

/// A node as the cluster has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NodeSighting {
    /// Whether the condition `Ready` exists and is `True`.
    pub is_ready: bool,
    /// Whether the node has the taint `node.kubernetes.io/out-of-service`, with any value and effect.
    pub is_out_of_service: bool,
}

/// The taint by which an administrator declares a node dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

impl Cluster {
    /// The pod of this name, on a node or pending. Waits for a change of the cluster that is under way.
    pub fn sighted_pod(&self, key: &PodKey) -> Option<PodSighting> {
        let writer = self.writer();
        let known = writer.known(key)?;
        let facts = known.pod.facts();
        let (uid, node) = (facts.uid.clone(), facts.node_name.clone());
        Some(PodSighting { uid, node, is_assumed: known.is_assumed() })
    }
}

impl Snapshot {
    /// The pod of this uid on a node of the cluster.
    pub fn sighted_pod_on(&self, node: &str, uid: &str) -> Option<PodSighting> {
        let row = self.row_named(node)?;
        let mut pods = self.shards[row.shard()].pods.of(row.row()).iter();
        let placed = pods.find(|placed| placed.pod.uid() == uid)?;
        let facts = placed.pod.facts();
        let (uid, node) = (facts.uid.clone(), facts.node_name.clone());
        Some(PodSighting { uid, node, is_assumed: placed.assumed.is_some() })
    }

    /// The node of this name.
    pub fn sighted_node(&self, name: &str) -> Option<NodeSighting> {
        let facts = self.node_named(name)?.facts();
        let names = self.model.names();
        Some(NodeSighting {
            is_ready: facts.removal.is_ready,
            is_out_of_service: facts
                .taints
                .iter()
                .any(|taint| &*names.name(taint.key) == OUT_OF_SERVICE),
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::core_v1;
    use berth_testing::object;

    use super::*;
    use crate::cluster::delta::Delta;
    use crate::plan::request::{PlaceRequest, TieBreak};
    use crate::policy::Policy;

    #[test]
    fn pods_and_nodes_are_seen_as_they_are() {
        let cluster = Cluster::new();
        let mut a = object::node("a cpu=4 pods=9");
        let ready = core_v1::NodeCondition {
            r#type: "Ready".to_owned(),
            status: "True".to_owned(),
            ..Default::default()
        };
        a.status.get_or_insert_default().conditions.push(ready);
        let b =
            object::node(&format!("b cpu=4 pods=9 taint={OUT_OF_SERVICE}=nodeshutdown:NoExecute"));
        let pods = ["bound uid=1 node=a", "waits uid=2", "orphan uid=3 node=gone"];
        let nodes = [a, b].map(|node| Delta::UpsertNode(cluster.compile_node(&node).unwrap()));
        let pods = pods.map(|pod| cluster.compile_pod(&object::pod(pod)).unwrap());
        cluster.apply(nodes.into_iter().chain(pods.map(Delta::UpsertPod)).collect());
        let new = cluster.compile_pod(&object::pod("new uid=4 named=a")).unwrap();
        let policy = Policy::default();
        let tie_break = TieBreak::Lexicographic;
        cluster.assume(&PlaceRequest { pod: &new, policy: &policy, tie_break, now: None }).unwrap();
        let pod = |name: &str| cluster.sighted_pod(&PodKey::new("default", name));
        let seen = |uid: &str, node: Option<&str>, is_assumed| {
            Some(PodSighting { uid: uid.into(), node: node.map(Arc::from), is_assumed })
        };
        assert_eq!(pod("bound"), seen("1", Some("a"), false));
        assert_eq!(pod("waits"), seen("2", None, false));
        assert_eq!(pod("orphan"), seen("3", Some("gone"), false));
        assert_eq!(pod("new"), seen("4", Some("a"), true));
        assert_eq!(pod("other"), None);
        let snapshot = cluster.snapshot();
        assert_eq!(snapshot.sighted_pod_on("a", "1"), pod("bound"));
        assert_eq!(snapshot.sighted_pod_on("a", "4"), pod("new"));
        for (node, uid) in [("b", "1"), ("gone", "3"), ("a", "9")] {
            assert_eq!(snapshot.sighted_pod_on(node, uid), None, "{node} {uid}");
        }
        let node = |is_ready, is_out_of_service| Some(NodeSighting { is_ready, is_out_of_service });
        assert_eq!(snapshot.sighted_node("a"), node(true, false));
        assert_eq!(snapshot.sighted_node("b"), node(false, true));
        assert_eq!(snapshot.sighted_node("gone"), None);
    }
}
