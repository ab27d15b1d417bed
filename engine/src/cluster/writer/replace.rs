//! Replace: the cluster's content becomes exactly what a feed lists.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::change::Change;
use super::super::delta::{ClusterState, Delta, RejectedDelta};
use super::super::known::{Known, is_confirmed, is_same};
use super::Writer;
use crate::model::{ModelError, Node, Object, ObjectKey, Pod, PodKey};

impl Writer {
    /// Replaces what feeds have reported by exactly these objects; assumed pods stay, contradictions are forgotten. A
    /// second object of one name is rejected.
    pub(in crate::cluster) fn replace(&mut self, state: ClusterState) -> Vec<RejectedDelta> {
        self.note(|| Change::Replaced(Box::new(state.clone())));
        self.clear_contradictions();
        self.forget_all_but(&state);
        let mut rejected = Vec::new();
        let ClusterState { nodes, objects, pods } = state;
        let (mut seen_nodes, mut seen_objects, mut seen_pods) =
            (FxHashSet::default(), FxHashSet::default(), FxHashSet::default());
        let (n_nodes, n_objects) = (nodes.len(), objects.len());
        for (index, node) in nodes.into_iter().enumerate() {
            if seen_nodes.insert(node.facts().name.clone()) {
                self.apply_one(index, Delta::UpsertNode(node), &mut rejected);
            } else {
                rejected.push(duplicate(index, &Delta::UpsertNode(node)));
            }
        }
        for (index, object) in (n_nodes..).zip(objects) {
            if seen_objects.insert(object.key().clone()) {
                self.apply_one(index, Delta::UpsertObject(object), &mut rejected);
            } else {
                rejected.push(duplicate(index, &Delta::UpsertObject(object)));
            }
        }
        for (index, pod) in (n_nodes + n_objects..).zip(pods) {
            if seen_pods.insert(pod.key().clone()) {
                self.apply_one(index, Delta::UpsertPod(pod), &mut rejected);
            } else {
                rejected.push(duplicate(index, &Delta::UpsertPod(pod)));
            }
        }
        rejected
    }

    /// Applies a delta at this position of its list; the observer is told of it already.
    pub(in crate::cluster) fn apply_one(
        &mut self,
        index: usize,
        delta: Delta,
        rejected: &mut Vec<RejectedDelta>,
    ) {
        // After compilation only a pod can be rejected; a copy of it is cheap to keep until then.
        let pod = if let Delta::UpsertPod(pod) = &delta { Some(pod.clone()) } else { None };
        if let Err(error) = self.take_in(delta) {
            let object = pod.map_or_else(String::new, |pod| Delta::UpsertPod(pod).object());
            rejected.push(RejectedDelta { index, object, error });
        }
    }

    /// Removes everything that a feed once reported and that differs from or is missing in the new state; assumed pods
    /// stay.
    fn forget_all_but(&mut self, state: &ClusterState) {
        let ClusterState { nodes, objects, pods } = state;
        let kept: FxHashMap<&ObjectKey, &Object> =
            objects.iter().rev().map(|object| (object.key(), object)).collect();
        let is_kept = |known: &&Object| {
            kept.get(known.key()).is_some_and(|object| {
                object.facts() == known.facts()
                    && object.resource_version() == known.resource_version()
            })
        };
        let known = self.draft.snapshot.objects.iter();
        let gone_objects: Vec<_> =
            known.filter(|object| !is_kept(object)).map(|object| object.key().clone()).collect();
        gone_objects.iter().for_each(|key| self.draft.delete_object(key));
        let named: FxHashSet<&str> = nodes.iter().map(Node::name).collect();
        let listed: FxHashMap<&PodKey, &Pod> = pods.iter().map(|pod| (pod.key(), pod)).collect();
        let is_gone = |known: &Known<'_>| {
            let listed = listed.get(known.pod.key()).filter(|pod| !pod.is_terminal());
            !known.is_assumed() && !listed.is_some_and(|pod| is_same(pod, known))
        };
        let is_unnamed = |name: &&Arc<str>| !named.contains(&***name);
        let mut gone_nodes: Vec<_> =
            self.nodes.iter().map(|(name, _)| name).filter(is_unnamed).cloned().collect();
        let known = self.pods.iter(&self.draft.snapshot).filter(is_gone);
        let mut gone_pods: Vec<PodKey> = known.map(|known| known.pod.key().clone()).collect();
        gone_pods.sort_unstable();
        gone_nodes.sort_unstable();
        for key in &gone_pods {
            let listed = listed.get(key).filter(|pod| !pod.is_terminal());
            let is_kept =
                listed.zip(self.known(key)).is_some_and(|(pod, known)| is_confirmed(pod, &known));
            let bindings = self.draft.release_bindings(key).filter(|_| is_kept);
            let promise = listed.and_then(|pod| Some((pod, self.kept_promise(pod)?)));
            self.forget(key);
            if let Some(bindings) = bindings {
                self.draft.restore_bindings(key, bindings);
            }
            if let Some((pod, node)) = promise {
                self.draft.nominate(pod, &node);
            }
        }
        gone_nodes.iter().for_each(|name| self.delete_node(name));
        // Listed objects are accepted even with older resource versions.
        self.nodes.for_each_mut(|known| known.resource_version = None);
    }
}

fn duplicate(index: usize, delta: &Delta) -> RejectedDelta {
    let error = ModelError::new("metadata.name", "stands in the snapshot twice");
    RejectedDelta { index, object: delta.object(), error }
}
