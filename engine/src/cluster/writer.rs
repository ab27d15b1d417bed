//! Writer: applies deltas to produce the next snapshot. The only code that changes a cluster; its changes of pods are
//! in `pods`. Rules: S-CCH-1 to S-CCH-9.

mod pods;
mod recall;
mod replace;

use std::sync::Arc;

use super::change::Change;
use super::delta::Delta;
use super::directory::Directory;
use super::images::ImageRefresh;
use super::known::{Known, KnownPods, PodPlace};
use super::observer::{Observer, Watched};
use super::step::Step;
use crate::cluster::record::Session;
use crate::model::intern::Symbol;
use crate::model::{ModelError, Node, Object, Pod, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::draft::Draft;
use crate::snapshot::node_table::ImageState;
use crate::snapshot::{Counts, Generation, Snapshot};

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
    /// Set where an observer is told of each change; never for a fork.
    watched: Option<Watched>,
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
            watched: None,
        }
    }

    /// The writer with an observer, which is told of each change from here on.
    pub(super) fn watched_by(self, observer: Arc<dyn Observer>) -> Writer {
        Writer { watched: Some(Watched::by(observer)), ..self }
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
            watched: None,
        }
    }

    /// Applies one delta; on an error nothing is changed.
    pub(crate) fn apply(&mut self, delta: Delta) -> Result<(), ModelError> {
        self.note(|| Change::Delta(delta.clone()));
        self.take_in(delta)
    }

    /// Applies one delta that the observer is told of already.
    fn take_in(&mut self, delta: Delta) -> Result<(), ModelError> {
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

    /// Notes a change for the observer, if there is one.
    pub(super) fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(watched) = &mut self.watched {
            watched.note(change());
        }
    }

    /// Tells the observer, if there is one, what has led to this generation.
    pub(super) fn tell(&mut self, generation: Generation) {
        if let Some(watched) = &mut self.watched {
            watched.tell(generation);
        }
    }

    /// Fences a node or lifts its fence; returns whether that changes anything.
    pub(super) fn set_fenced(&mut self, node: &Arc<str>, is_fenced: bool) -> bool {
        let is_changed = self.draft.set_fenced(node, is_fenced);
        if is_changed {
            self.note(|| Change::Fenced { node: node.clone(), is_fenced });
        }
        is_changed
    }

    pub(crate) fn clear_contradictions(&mut self) {
        self.set_contradictions(0);
    }

    pub(super) fn set_contradictions(&mut self, n: u64) {
        self.counts().n_contradictions = n;
    }

    /// The node of a pod that has one, whether or not the cluster has the node.
    pub(crate) fn node_of(&self, key: &PodKey) -> Option<Arc<str>> {
        // Exactly the pods on no node have no node name.
        self.known(key)?.pod.facts().node_name.clone()
    }

    /// Applies a decided step. A fork also records it.
    pub(crate) fn carry_out(&mut self, step: Step) {
        let was_pending = self.session.is_some() && self.known(step.pod()).is_some();
        self.note(|| Change::of(&step));
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

    /// The nodes in the order of their rows, with the newest resource versions that were seen of them.
    pub(super) fn nodes_as_seen(&self) -> Vec<Node> {
        let seen = |node: &Node| {
            let known = self.nodes.get(&node.facts().name);
            node.clone().seen_at(known.and_then(|known| known.resource_version))
        };
        self.nodes_by_row().map(|(_, node)| seen(node)).collect()
    }

    /// The nodes with their rows, in the order of these.
    pub(super) fn nodes_by_row(&self) -> impl Iterator<Item = (NodeRow, &Node)> {
        self.draft.snapshot.shards.iter().flat_map(|shard| {
            let row =
                |row| Some((NodeRow::new(shard.index, row), shard.nodes.nodes[row].as_ref()?));
            shard.nodes.rows.iter().filter_map(row)
        })
    }

    /// The pods on nodes that the cluster does not have: by the names of these, and then as they arrived.
    pub(super) fn orphans_in_order(&self) -> Vec<&PodKey> {
        let mut orphans: Vec<_> = self.orphans.iter().collect();
        orphans.sort_unstable_by_key(|(node, _)| *node);
        orphans.into_iter().flat_map(|(_, pods)| pods).collect()
    }

    /// Sets sizes of images, also in the entries of all nodes.
    pub(super) fn recall_image_sizes(&mut self, sizes: Vec<(Symbol, i64)>) {
        for (name, size_bytes) in sizes {
            if let Some(state) = Arc::make_mut(&mut self.draft.snapshot.images).get_mut(&name) {
                state.size_bytes = size_bytes;
            }
        }
        let rows: Vec<NodeRow> = self.nodes_by_row().map(|(row, _)| row).collect();
        rows.into_iter().for_each(|row| self.draft.refresh_images(row));
    }

    /// Sets the images of a row as its last change found them; its next change finds the newest.
    pub(super) fn recall_images(&mut self, row: NodeRow, states: &[(Symbol, ImageState)]) {
        self.images.forget(row);
        self.draft.recall_images(row, states);
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
        self.note(|| Change::TakenBack { pod: key.clone(), uid: uid.into() });
        if let Some(session) = &mut self.session {
            session.withdraw(key);
        }
    }

    /// Whether a pod is known only since Berth has nominated it.
    pub(super) fn is_by_nomination(&self, key: &PodKey) -> bool {
        self.pods.is_by_nomination(key)
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
