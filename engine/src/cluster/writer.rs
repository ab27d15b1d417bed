//! Writer: applies deltas to produce the next snapshot. The only code that changes a cluster; its changes of pods are
//! in `pods`. Rules: S-CCH-1 to S-CCH-9.

mod pods;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::delta::{ClusterState, Delta};
use super::directory::Directory;
use super::images::ImageRefresh;
use super::known::{Known, KnownPods, PodPlace, is_confirmed, is_same};
use super::step::Step;
use crate::cluster::record::Session;
use crate::model::{ModelError, Node, Object, ObjectKey, Pod, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::draft::Draft;
use crate::snapshot::{Counts, Snapshot};

/// The state that deltas are applied to. Its snapshots share everything that did not change in between.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) draft: Draft,
    nodes: Directory<Arc<str>, KnownNode>,
    pods: KnownPods,
    /// Pods by the name of a node that the cluster does not have, in order of arrival.
    orphans: Directory<Arc<str>, Vec<PodKey>>,
    images: ImageRefresh,
    /// Steps of a fork; `None` for a cluster that is no fork.
    pub(super) session: Option<Box<Session>>,
}

#[derive(Copy, Clone, Debug)]
struct KnownNode {
    row: NodeRow,
    resource_version: Option<u64>,
}

impl Writer {
    pub(crate) fn new(draft: Draft) -> Writer {
        Writer {
            draft,
            nodes: Directory::default(),
            pods: KnownPods::default(),
            orphans: Directory::default(),
            images: ImageRefresh::default(),
            session: None,
        }
    }

    /// A writer for a fork: it knows all that this one knows, and has its own history from here on.
    pub(crate) fn fork(&self) -> Writer {
        Writer {
            draft: self.draft.branch(),
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            orphans: self.orphans.clone(),
            images: self.images.clone(),
            session: Some(Box::default()),
        }
    }

    /// Applies one delta; on an error nothing is changed.
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
        self.list_off_nodes();
        self.draft.snapshot.generation.0 += 1;
        self.draft.snapshot.clone()
    }

    /// Lists the pods on no node, if a budget is computed from its pods (S-PDB-1).
    fn list_off_nodes(&mut self) {
        let snapshot = &mut self.draft.snapshot;
        if snapshot.objects.has_computed_budgets() {
            snapshot.off_nodes = self.pods.off_nodes().cloned().collect();
        } else if !snapshot.off_nodes.is_empty() {
            snapshot.off_nodes = Arc::default();
        }
    }

    /// Copies image counts into the entries of changed nodes (S-IL-5); needed before decisions on the draft.
    pub(crate) fn refresh_images(&mut self) {
        for row in self.images.take_stale() {
            self.draft.refresh_images(row);
        }
    }

    /// Removes everything that a feed once reported and that differs from or is missing in the new state; assumed pods
    /// stay.
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

    pub(crate) fn clear_contradictions(&mut self) {
        self.counts().n_contradictions = 0;
    }

    /// The node of a pod that has one, whether or not the cluster has the node.
    pub(crate) fn node_of(&self, key: &PodKey) -> Option<Arc<str>> {
        // Exactly the pods on no node have no node name.
        self.known(key)?.pod.facts().node_name.clone()
    }

    /// Applies a decided step. A fork also records it.
    pub(crate) fn carry_out(&mut self, step: Step) {
        let was_pending = self.session.is_some() && self.known(step.pod()).is_some();
        match &step {
            Step::Assume { pod, row, bindings, .. } => self.assume(pod, *row, bindings),
            Step::Nominate { pod, node, .. } => self.nominate(pod, node),
            Step::Clear { pod, .. } => self.clear_nomination(pod),
        }
        if let Some(session) = &mut self.session {
            session.record(step, was_pending);
        }
    }

    /// Every known pod, in arbitrary order.
    pub(super) fn known_pods(&self) -> impl Iterator<Item = Known<'_>> {
        self.pods.iter(&self.draft.snapshot)
    }

    /// The names of all nodes, in arbitrary order.
    pub(super) fn known_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().map(|(name, _)| name)
    }

    /// Whether this pod, by identity, is known.
    pub(crate) fn knows(&self, pod: &Pod) -> bool {
        self.known(pod.key()).is_some_and(|known| known.pod.is_same_as(pod))
    }

    /// Whether another pod of its name is known.
    pub(crate) fn knows_another(&self, pod: &Pod) -> bool {
        self.known(pod.key()).is_some_and(|known| !known.pod.is_same_as(pod))
    }

    /// Undoes the assumption or nomination of a pod of this uid; a pod that is known only by its nomination is forgotten.
    /// On a fork the pod then counts as never decided; this is no supposition.
    pub(crate) fn take_back(&mut self, key: &PodKey, uid: &str) {
        let Some(known) = self.known(key).filter(|known| known.pod.uid() == uid) else { return };
        match (known.place, known.is_assumed()) {
            (PodPlace::Pending, _) if self.pods.is_by_nomination(key) => self.forget(key),
            (PodPlace::Pending, _) => self.clear_nomination(key),
            (_, true) => self.forget(key),
            (_, false) => return,
        }
        if let Some(session) = &mut self.session {
            session.withdraw(key);
        }
    }

    /// Whether a step's effect still holds: later deltas may have undone it.
    pub(crate) fn upholds(&self, step: &Step) -> bool {
        let known = self.known(step.pod());
        match step {
            Step::Assume { pod, .. } => known.is_some_and(|known| {
                known.place != PodPlace::Pending && known.pod.uid() == pod.uid()
            }),
            Step::Nominate { .. } => known.is_some(),
            Step::Clear { .. } => true,
        }
    }

    /// Records on a fork that deltas naming these pods, `None` for all, led here from an earlier state.
    pub(crate) fn suppose(&mut self, before: &Snapshot, named: Option<&[PodKey]>) {
        if let Some(mut session) = self.session.take() {
            session.suppose((before, &self.draft.snapshot), named, |step| self.upholds(step));
            self.session = Some(session);
        }
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

    /// Moves pods that were known before their node onto it.
    fn adopt_orphans(&mut self, name: &Arc<str>, row: NodeRow) {
        let mut left = Vec::new();
        let orphans = self.orphans.remove(name).map(|(_, keys)| keys);
        for key in orphans.unwrap_or_default() {
            let Some(Known { pod, assumed, .. }) = self.known(&key) else { continue };
            if check_range(&self.draft.snapshot, row, pod).is_err() {
                left.push(key);
                continue;
            }
            let pod = pod.clone();
            self.pods.take_elsewhere(&key);
            self.pods.put_on(&key, row);
            self.draft.add_pod(row, pod, assumed);
            self.counts().n_orphaned -= 1;
            self.counts().n_pods += 1;
        }
        if !left.is_empty() {
            self.orphans.insert(name.clone(), left);
        }
    }

    fn delete_node(&mut self, name: &str) {
        let Some((name, KnownNode { row, .. })) = self.nodes.remove(name) else {
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
            let key = placed.pod.key().clone();
            self.pods.take_off(&key);
            self.pods.put_elsewhere(placed.pod, placed.assumed);
            keys.push(key);
        }
        if !keys.is_empty() {
            self.orphans.insert(name, keys);
        }
    }

    fn touch_images(&mut self, row: NodeRow) {
        if let Some(node) = self.draft.snapshot.node(row) {
            self.images.touch(row, node);
        }
    }

    pub(super) fn known(&self, key: &PodKey) -> Option<Known<'_>> {
        self.pods.get(key, &self.draft.snapshot)
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.draft.snapshot.counts
    }
}

/// Refuses a pod whose requests would overflow a node's sums.
pub(super) fn check_range(snapshot: &Snapshot, row: NodeRow, pod: &Pod) -> Result<(), ModelError> {
    let usage = &snapshot.shards[row.shard()].usage;
    if usage.has_range_for(row.row(), pod.footprint()) {
        return Ok(());
    }
    Err(ModelError::new("spec", "takes the requests on its node past 2^62"))
}

/// Whether an object is older than the known one: resource versions of one kind only grow.
fn is_older(new: Option<u64>, known: Option<u64>) -> bool {
    matches!((new, known), (Some(new), Some(known)) if new < known)
}
