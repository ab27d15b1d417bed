//! Writer: deltas → the next snapshot. The only code that changes a cluster.
//! Rules: S-Q-1, S-CCH-1 to S-CCH-9.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::delta::{ClusterState, Delta};
use super::images::ImageRefresh;
use crate::model::ModelError;
use crate::model::volume::VolumeBindings;
use crate::model::{Node, Object, ObjectKey, Pod, PodKey};
use crate::snapshot::draft::Draft;
use crate::snapshot::{Counts, NodeRow, Snapshot};

/// The state that deltas are applied to. Snapshots of it share everything that did not change since.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) draft: Draft,
    nodes: FxHashMap<Arc<str>, KnownNode>,
    pods: FxHashMap<PodKey, KnownPod>,
    /// Pods by the name of a node that the cluster does not have, in the order in which they came.
    orphans: FxHashMap<Arc<str>, Vec<PodKey>>,
    images: ImageRefresh,
}

#[derive(Copy, Clone, Debug)]
struct KnownNode {
    row: NodeRow,
    resource_version: Option<u64>,
}

#[derive(Clone, Debug)]
struct KnownPod {
    pod: Pod,
    place: PodPlace,
    is_assumed: bool,
}

/// Where a known pod is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum PodPlace {
    OnNode(NodeRow),
    /// On a node that the cluster does not have.
    Orphaned,
    Pending,
}

impl Writer {
    pub(crate) fn new(draft: Draft) -> Writer {
        Writer {
            draft,
            nodes: FxHashMap::default(),
            pods: FxHashMap::default(),
            orphans: FxHashMap::default(),
            images: ImageRefresh::default(),
        }
    }

    /// Applies one delta; on an error nothing of it was applied.
    pub(crate) fn apply(&mut self, delta: Delta) -> Result<(), ModelError> {
        match delta {
            Delta::UpsertNode(node) => self.upsert_node(&node),
            Delta::DeleteNode(name) => self.delete_node(&name),
            Delta::UpsertPod(pod) => return self.upsert_pod(pod),
            Delta::UpsertObject(object) => self.upsert_object(&object),
            Delta::DeleteObject(key) => self.draft.delete_object(&key),
            Delta::DeletePod { key, uid } => self.delete_pod(&key, uid.as_deref()),
        }
        Ok(())
    }

    /// The next generation, with every changed node's image entry refreshed.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.refresh_images();
        self.draft.snapshot.generation.0 += 1;
        self.draft.snapshot.clone()
    }

    /// Copies image counts into the entries of changed nodes (S-IL-5): to be done before the draft is decided on.
    pub(crate) fn refresh_images(&mut self) {
        for row in self.images.take_stale() {
            self.draft.refresh_images(row);
        }
    }

    /// Removes what a feed once told and now tells otherwise or no longer; assumed pods stay.
    pub(crate) fn forget_all_but(&mut self, state: &ClusterState) {
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
        let is_listed = |key: &PodKey, known: &KnownPod| {
            listed.get(key).is_some_and(|pod| !pod.is_terminal() && is_same(pod, known))
        };
        let is_gone =
            |(key, known): &(&PodKey, &KnownPod)| !known.is_assumed && !is_listed(key, known);
        let mut gone_nodes: Vec<_> =
            self.nodes.keys().filter(|name| !named.contains(&***name)).cloned().collect();
        let mut gone_pods: Vec<_> =
            self.pods.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        gone_pods.sort_unstable();
        gone_nodes.sort_unstable();
        for key in &gone_pods {
            let listed = listed.get(key).filter(|pod| !pod.is_terminal());
            let is_kept = listed.zip(self.pods.get(key)).is_some_and(|(p, k)| is_confirmed(p, k));
            let bindings = self.draft.release_bindings(key).filter(|_| is_kept);
            self.forget(key);
            if let Some(bindings) = bindings {
                self.draft.restore_bindings(key, bindings);
            }
        }
        gone_nodes.iter().for_each(|name| self.delete_node(name));
        // What is listed counts, however old it says it is.
        self.nodes.values_mut().for_each(|known| known.resource_version = None);
    }

    pub(crate) fn clear_contradictions(&mut self) {
        self.counts().n_contradictions = 0;
    }

    /// The node of a pod that has one, present or not.
    pub(crate) fn node_of(&self, key: &PodKey) -> Option<Arc<str>> {
        let known = self.pods.get(key)?;
        if known.place == PodPlace::Pending { None } else { known.pod.facts().node_name.clone() }
    }

    /// Puts a pod onto the node of a row at once (S-CCH-2). The pod must not be on a node.
    pub(crate) fn assume(&mut self, pod: &Pod, row: NodeRow, bindings: &VolumeBindings) {
        self.forget(pod.key());
        let Some(node) = self.draft.snapshot.node(row) else {
            return;
        };
        let pod = pod.on_node(node.facts().name.clone());
        self.images.touch(row, node);
        self.draft.add_pod(row, pod.clone(), true);
        self.draft.assume_bindings(pod.key(), row, bindings);
        self.counts().n_pods += 1;
        self.counts().n_assumed += 1;
        let known = KnownPod { pod: pod.clone(), place: PodPlace::OnNode(row), is_assumed: true };
        self.pods.insert(pod.key().clone(), known);
    }

    fn upsert_node(&mut self, node: &Node) {
        let name = node.facts().name.clone();
        let resource_version = node.resource_version();
        let Some(known) = self.nodes.get_mut(&name) else {
            self.images.add_node(node, Arc::make_mut(&mut self.draft.snapshot.images));
            let row = self.draft.insert_node(node.clone());
            self.images.touch(row, node);
            self.counts().n_nodes += 1;
            self.nodes.insert(name.clone(), KnownNode { row, resource_version });
            self.adopt_orphans(&name, row);
            return;
        };
        if is_older(resource_version, known.resource_version) {
            return;
        }
        known.resource_version = resource_version;
        let row = known.row;
        let old = self.draft.snapshot.node(row).cloned();
        if old.as_ref() != Some(node) {
            let states = Arc::make_mut(&mut self.draft.snapshot.images);
            if let Some(old) = &old {
                self.images.remove_node(old, states);
            }
            self.images.add_node(node, states);
            self.images.forget(row);
            self.draft.replace_node(row, node.clone());
        }
        self.images.touch(row, node);
    }

    fn upsert_object(&mut self, object: &Object) {
        match self.draft.snapshot.objects.get(object.key()) {
            Some(known) if is_older(object.resource_version(), known.resource_version()) => {}
            Some(known) if known.facts() == object.facts() => {
                self.draft.snapshot.objects.renew(object);
            }
            _ => self.draft.upsert_object(object),
        }
    }

    /// Pods that were known before their node take their places on it.
    fn adopt_orphans(&mut self, name: &Arc<str>, row: NodeRow) {
        let mut left = Vec::new();
        for key in self.orphans.remove(name).unwrap_or_default() {
            if let Some(known) = self.pods.get_mut(&key) {
                if check_range(&self.draft.snapshot, row, &known.pod).is_err() {
                    left.push(key);
                    continue;
                }
                known.place = PodPlace::OnNode(row);
                let (pod, is_assumed) = (known.pod.clone(), known.is_assumed);
                self.draft.add_pod(row, pod, is_assumed);
                self.counts().n_orphaned -= 1;
                self.counts().n_pods += 1;
            }
        }
        if !left.is_empty() {
            self.orphans.insert(name.clone(), left);
        }
    }

    fn delete_node(&mut self, name: &str) {
        let Some((name, KnownNode { row, .. })) = self.nodes.remove_entry(name) else {
            return;
        };
        if let Some(node) = self.draft.snapshot.node(row).cloned() {
            self.images.remove_node(&node, Arc::make_mut(&mut self.draft.snapshot.images));
        }
        self.images.forget(row);
        let pods = self.draft.remove_node(row);
        self.counts().n_nodes -= 1;
        self.counts().n_pods -= pods.len();
        self.counts().n_orphaned += pods.len();
        let mut keys = Vec::with_capacity(pods.len());
        for placed in pods {
            if let Some(known) = self.pods.get_mut(placed.pod.key()) {
                known.place = PodPlace::Orphaned;
                keys.push(placed.pod.key().clone());
            }
        }
        if !keys.is_empty() {
            self.orphans.insert(name, keys);
        }
    }

    fn upsert_pod(&mut self, pod: Pod) -> Result<(), ModelError> {
        if pod.is_terminal() {
            self.delete_pod(pod.key(), Some(pod.uid()));
            return Ok(());
        }
        if pod.uid().is_empty() && pod.node_name().is_some() {
            return Err(ModelError::new("metadata.uid", "is missing"));
        }
        if let Some(known) = self.pods.get_mut(pod.key()) {
            if is_older(pod.facts().resource_version, known.pod.facts().resource_version) {
                return Ok(());
            }
            if is_same(&pod, known) {
                known.pod = pod;
                return Ok(());
            }
            if known.pod.uid() == pod.uid() {
                if pod.node_name().is_none() && known.place != PodPlace::Pending {
                    // Sent before the pod got its node, which it never loses.
                    return Ok(());
                }
                if is_contradiction(&pod, known) {
                    let node = known.pod.node_name().unwrap_or_default();
                    let reason = format!("changes the node of a bound pod, which is on `{node}`");
                    self.counts().n_contradictions += 1;
                    return Err(ModelError::new("spec.nodeName", reason));
                }
            }
        }
        if let Some(known) = pod.node_name().and_then(|name| self.nodes.get(name)) {
            let checked = check_range(&self.draft.snapshot, known.row, &pod);
            if checked.is_err() && !self.pods.contains_key(pod.key()) {
                self.draft.release_bindings(pod.key());
            }
            checked?;
        }
        // Of a pod that is not known there are bindings only while a new listing is taken in.
        let is_kept = self.pods.get(pod.key()).is_none_or(|known| is_confirmed(&pod, known));
        let bindings = self.draft.release_bindings(pod.key()).filter(|_| is_kept);
        let key = pod.key().clone();
        self.forget(&key);
        self.insert(pod);
        if let Some(bindings) = bindings {
            self.draft.restore_bindings(&key, bindings);
        }
        Ok(())
    }

    fn insert(&mut self, pod: Pod) {
        let place = match &pod.facts().node_name {
            None => {
                self.counts().n_pending += 1;
                PodPlace::Pending
            }
            Some(name) => match self.nodes.get(name).copied() {
                Some(KnownNode { row, .. }) => {
                    self.draft.add_pod(row, pod.clone(), false);
                    self.touch_images(row);
                    self.counts().n_pods += 1;
                    PodPlace::OnNode(row)
                }
                None => {
                    self.orphans.entry(name.clone()).or_default().push(pod.key().clone());
                    self.counts().n_orphaned += 1;
                    PodPlace::Orphaned
                }
            },
        };
        self.pods.insert(pod.key().clone(), KnownPod { pod, place, is_assumed: false });
    }

    fn delete_pod(&mut self, key: &PodKey, uid: Option<&str>) {
        let Some(known) = self.pods.get(key) else {
            return;
        };
        if uid.is_none_or(|uid| uid.is_empty() || uid == known.pod.uid()) {
            self.forget(key);
        }
    }

    /// Takes a pod out, wherever it is.
    fn forget(&mut self, key: &PodKey) {
        let Some(known) = self.pods.remove(key) else {
            return;
        };
        self.draft.release_bindings(key);
        if known.is_assumed {
            self.counts().n_assumed -= 1;
        }
        match known.place {
            PodPlace::OnNode(row) => {
                self.draft.remove_pod(row, &known.pod);
                self.touch_images(row);
                self.counts().n_pods -= 1;
            }
            PodPlace::Orphaned => {
                self.counts().n_orphaned -= 1;
                if let Some(name) = known.pod.node_name()
                    && let Some(keys) = self.orphans.get_mut(name)
                {
                    keys.retain(|other| other != key);
                    if keys.is_empty() {
                        self.orphans.remove(name);
                    }
                }
            }
            PodPlace::Pending => self.counts().n_pending -= 1,
        }
    }

    fn touch_images(&mut self, row: NodeRow) {
        if let Some(node) = self.draft.snapshot.node(row) {
            self.images.touch(row, node);
        }
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.draft.snapshot.counts
    }
}

/// Refuses a pod whose amounts a node's sums could not hold.
fn check_range(snapshot: &Snapshot, row: NodeRow, pod: &Pod) -> Result<(), ModelError> {
    let usage = &snapshot.shards[row.shard()].usage;
    if usage.has_range_for(row.row(), pod.footprint()) {
        return Ok(());
    }
    Err(ModelError::new("spec", "takes the requests on its node past 2^62"))
}

/// Whether an object was written before the one that is known: resource versions of one kind only grow.
fn is_older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}

/// Whether a pod tells nothing new, so that it may be told any number of times.
fn is_same(pod: &Pod, known: &KnownPod) -> bool {
    let (new, old) = (pod.facts(), known.pod.facts());
    !known.is_assumed
        && new.uid == old.uid
        && new.node_name == old.node_name
        && Arc::ptr_eq(&new.shape, &old.shape)
        && Arc::ptr_eq(&new.population, &old.population)
        && new.volumes == old.volumes
        && new.resized == old.resized
}

/// Whether a pod is told to be where it is known to be: it keeps what was decided of its claims.
fn is_confirmed(pod: &Pod, known: &KnownPod) -> bool {
    pod.uid() == known.pod.uid() && pod.node_name() == known.pod.node_name()
}

/// A pod that was bound does not change its node (S-CCH-6); an assumed one may be bound elsewhere (S-CCH-3).
fn is_contradiction(pod: &Pod, known: &KnownPod) -> bool {
    known.place != PodPlace::Pending
        && !known.is_assumed
        && pod.node_name() != known.pod.node_name()
}
