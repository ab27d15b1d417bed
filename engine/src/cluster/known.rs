//! KnownPods: the location of every pod that the cluster knows. Pods on nodes are stored in the node's row only.

use std::hash::BuildHasher;
use std::sync::Arc;

use imbl::OrdMap;
use rustc_hash::FxBuildHasher;

use super::directory::Directory;
use crate::model::{Pod, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::{AssumptionStamp, Snapshot};

/// Locations of pods by key. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPods {
    /// Rows of the pods on nodes by a hash of their keys: an entry leads to a row, which has the key itself.
    rows: Directory<u64, NodeRow>,
    /// Rows of pods on nodes whose hash was taken by another pod. Empty, unless collisions are provoked.
    namesakes: OrdMap<PodKey, NodeRow>,
    /// Pods that are on no node of the cluster.
    elsewhere: Directory<PodKey, Elsewhere>,
}

/// A pod on no node of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    pub(super) pod: Pod,
    pub(super) assumed: Option<AssumptionStamp>,
    /// Whether the pod is known since Berth has nominated it, and no feed has reported it.
    is_by_nomination: bool,
}

/// A known pod.
#[derive(Copy, Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) pod: &'a Pod,
    pub(super) place: PodPlace,
    /// Set if the pod was placed by Berth and is not yet confirmed by a feed (S-CCH-1).
    pub(super) assumed: Option<AssumptionStamp>,
}

impl Known<'_> {
    /// Whether the pod was placed by Berth and is not yet confirmed by a feed (S-CCH-1).
    pub(super) fn is_assumed(&self) -> bool {
        self.assumed.is_some()
    }
}

/// Location of a known pod.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum PodPlace {
    OnNode(NodeRow),
    /// The pod is on a node that the cluster does not have.
    Orphaned,
    Pending,
}

impl KnownPods {
    /// The known pod of this name.
    pub(super) fn get<'a>(&'a self, key: &PodKey, snapshot: &'a Snapshot) -> Option<Known<'a>> {
        self.find(hash_of(key), key, snapshot)
    }

    /// Every known pod, in arbitrary order.
    pub(super) fn iter<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Known<'a>> {
        let on_nodes = snapshot.shards.iter().flat_map(|shard| {
            shard.nodes.rows.iter().flat_map(move |row| {
                shard.pods.of(row).iter().map(move |placed| Known {
                    pod: &placed.pod,
                    place: PodPlace::OnNode(NodeRow::new(shard.index, row)),
                    assumed: placed.assumed,
                })
            })
        });
        on_nodes.chain(self.elsewhere.iter().map(|(_, elsewhere)| elsewhere.known()))
    }

    /// The pods on no node of the cluster, in arbitrary order.
    pub(super) fn off_nodes(&self) -> impl Iterator<Item = &Pod> {
        self.elsewhere.iter().map(|(_, elsewhere)| &elsewhere.pod)
    }

    /// Records that an unknown pod came to a row of the snapshot.
    pub(super) fn put_on(&mut self, key: &PodKey, row: NodeRow) {
        self.put_hash_on(hash_of(key), key, row);
    }

    /// Records an unknown pod that is on no node of the cluster.
    pub(super) fn put_elsewhere(&mut self, pod: Pod, assumed: Option<AssumptionStamp>) {
        let key = pod.key().clone();
        self.elsewhere.insert(key, Elsewhere { pod, assumed, is_by_nomination: false });
    }

    /// Records whether a pod that is on no node is known only since Berth has nominated it.
    pub(super) fn set_by_nomination(&mut self, key: &PodKey, is_by_nomination: bool) {
        if self.is_by_nomination(key) != is_by_nomination
            && let Some(elsewhere) = self.elsewhere.get_mut(key)
        {
            elsewhere.is_by_nomination = is_by_nomination;
        }
    }

    /// Whether a pod is known only since Berth has nominated it.
    pub(super) fn is_by_nomination(&self, key: &PodKey) -> bool {
        self.elsewhere.get(key).is_some_and(|elsewhere| elsewhere.is_by_nomination)
    }

    /// Records that a pod left its row.
    pub(super) fn take_off(&mut self, key: &PodKey) {
        self.take_hash_off(hash_of(key), key);
    }

    /// Removes a pod that was on no node.
    pub(super) fn take_elsewhere(&mut self, key: &PodKey) -> Option<Elsewhere> {
        self.elsewhere.remove(key).map(|(_, elsewhere)| elsewhere)
    }

    /// Whether a pod of this name is known and on no node of the cluster.
    pub(super) fn is_elsewhere(&self, key: &PodKey) -> bool {
        self.elsewhere.get(key).is_some()
    }

    /// A pod that is on no node, for changing it.
    pub(super) fn elsewhere_mut(&mut self, key: &PodKey) -> Option<&mut Elsewhere> {
        self.elsewhere.get_mut(key)
    }

    fn find<'a>(&'a self, hash: u64, key: &PodKey, snapshot: &'a Snapshot) -> Option<Known<'a>> {
        let on_row = |row: NodeRow| {
            let placed = snapshot.shards.get(row.shard())?.pods.find(row.row(), key)?;
            let place = PodPlace::OnNode(row);
            Some(Known { pod: &placed.pod, place, assumed: placed.assumed })
        };
        let expected = self.rows.get(&hash).and_then(|row| on_row(*row));
        expected
            .or_else(|| on_row(*self.namesakes.get(key)?))
            .or_else(|| self.elsewhere.get(key).map(Elsewhere::known))
    }

    fn put_hash_on(&mut self, hash: u64, key: &PodKey, row: NodeRow) {
        if let Some(other) = self.rows.insert(hash, row) {
            self.rows.insert(hash, other);
            self.namesakes.insert(key.clone(), row);
        }
    }

    fn take_hash_off(&mut self, hash: u64, key: &PodKey) {
        if self.namesakes.remove(key).is_none() {
            self.rows.remove(&hash);
        }
    }
}

impl Elsewhere {
    fn known(&self) -> Known<'_> {
        let is_bound = self.pod.node_name().is_some();
        let place = if is_bound { PodPlace::Orphaned } else { PodPlace::Pending };
        Known { pod: &self.pod, place, assumed: self.assumed }
    }
}

fn hash_of(key: &PodKey) -> u64 {
    FxBuildHasher.hash_one(key)
}

/// Whether an update of a pod has no news, so that it may be repeated any number of times.
pub(super) fn is_same(pod: &Pod, known: &Known<'_>) -> bool {
    let (new, old) = (pod.facts(), known.pod.facts());
    !known.is_assumed()
        && new.uid == old.uid
        && new.node_name == old.node_name
        && Arc::ptr_eq(&new.shape, &old.shape)
        && Arc::ptr_eq(&new.population, &old.population)
        && new.volumes == old.volumes
        && new.device_claims == old.device_claims
        && new.resized == old.resized
        && new.preemption == old.preemption
        && Arc::ptr_eq(&new.drainability, &old.drainability)
        && new.times == old.times
}

/// Whether an update confirms the pod's known node: then the decided bindings of its claims are kept.
pub(super) fn is_confirmed(pod: &Pod, known: &Known<'_>) -> bool {
    pod.uid() == known.pod.uid() && pod.node_name() == known.pod.node_name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use berth_proto::{core_v1, meta_v1};

    /// A cluster of two nodes with pods `a` and `b` on the first and `c` on the second.
    fn snapshot() -> std::sync::Arc<Snapshot> {
        let cluster = Cluster::new();
        let metadata = |name: &str| {
            let (name, uid) = (name.to_owned(), name.to_owned());
            Some(meta_v1::ObjectMeta { name, uid, ..Default::default() })
        };
        let node = |name| {
            let node = core_v1::Node { metadata: metadata(name), ..Default::default() };
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        };
        let pod = |name, node: &str| {
            let spec = core_v1::PodSpec { node_name: node.to_owned(), ..Default::default() };
            let pod =
                core_v1::Pod { metadata: metadata(name), spec: Some(spec), ..Default::default() };
            Delta::UpsertPod(cluster.compile_pod(&pod).unwrap())
        };
        let pods = [pod("a", "n1"), pod("b", "n1"), pod("c", "n2")];
        cluster.apply([node("n1"), node("n2")].into_iter().chain(pods).collect());
        cluster.snapshot()
    }

    /// A claim that was made for a pod is news, though only the status has changed.
    #[test]
    fn a_claim_that_was_made_is_news() {
        let cluster = Cluster::new();
        let compile = |status: &str| {
            let json = format!(
                r#"{{"metadata": {{"name": "a"}}, "spec": {{"resourceClaims":
                    [{{"name": "gpu", "resourceClaimTemplateName": "t"}}]}}, "status": {status}}}"#
            );
            cluster.compile_pod(&serde_json::from_str(&json).unwrap()).unwrap()
        };
        let pod = compile("{}");
        let known = Known { pod: &pod, place: PodPlace::Pending, assumed: None };
        assert!(is_same(&compile("{}"), &known));
        let made = r#"{"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "a-gpu"}]}"#;
        assert!(!is_same(&compile(made), &known));
    }

    /// Hashes may collide, but names do not.
    #[test]
    fn pods_of_one_hash_are_distinguished() {
        let snapshot = snapshot();
        let key = |name| PodKey::new("default", name);
        let row = |i| NodeRow::new(0, i);
        let mut known = KnownPods::default();
        for (name, at) in [("a", 0), ("b", 0), ("c", 1)] {
            known.put_hash_on(7, &key(name), row(at));
        }
        let place =
            |known: &KnownPods, name| known.find(7, &key(name), &snapshot).map(|known| known.place);
        let on = |i| Some(PodPlace::OnNode(row(i)));
        assert_eq!(["a", "b", "c"].map(|name| place(&known, name)), [on(0), on(0), on(1)]);
        known.take_hash_off(7, &key("a"));
        assert_eq!(["b", "c"].map(|name| place(&known, name)), [on(0), on(1)]);
        known.take_hash_off(7, &key("c"));
        assert_eq!(["b", "c"].map(|name| place(&known, name)), [on(0), None]);
        known.take_hash_off(7, &key("b"));
        assert!(known.namesakes.is_empty() && known.rows.iter().next().is_none());
    }
}
