//! Draft: a snapshot being written. Shards that a published snapshot shares are copied when first changed, so a fork
//! costs a few pointers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::OrdSet;

use super::Snapshot;
use super::bindings::{Bindings, Released, assumed_claims};
use super::devices::{AssumedClaims, Devices};
use super::indexed::Indexed;
use super::local_devices::LocalRow;
use super::node_table::ImageState;
use super::objects::Objects;
use super::placed_pod::PlacedPod;
use super::row_changes::RowChange;
use super::shard::Shard;
use super::spare_tables::SpareTables;
use super::stamp::AssumptionStamp;
use super::storage::Storage;
use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
use crate::model::kinds::object_kinds;
use crate::model::object::ObjectFacts;
use crate::model::pod_affinity::Term;
use crate::model::port::HostPort;
use crate::model::shape::ShapeFacts;
use crate::model::volume::VolumeBindings;
use crate::model::{Node, Object, ObjectKey, Pod, PodKey};
use crate::rows::{NodeRow, ROWS};

/// The state that deltas and placements change, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) snapshot: Snapshot,
    free: OrdSet<NodeRow>,
    /// Version counter, shared with every fork, so that equal shard versions mean equal content everywhere.
    versions: Arc<AtomicU64>,
    spare_tables: SpareTables,
}

impl Draft {
    pub(crate) fn new(snapshot: Snapshot, versions: Arc<AtomicU64>) -> Draft {
        Draft { snapshot, free: OrdSet::new(), versions, spare_tables: SpareTables::default() }
    }

    /// A private copy of a snapshot, with its own history from here on. New nodes get rows of a new shard, because a
    /// snapshot does not record which rows are free.
    pub(crate) fn fork(base: &Snapshot, versions: Arc<AtomicU64>) -> Draft {
        let lineage = versions.fetch_add(1, Ordering::Relaxed);
        Draft::new(Snapshot { lineage, ..base.clone() }, versions)
    }

    /// A private copy of this draft, with its own history from here on.
    pub(crate) fn branch(&self) -> Draft {
        let free = self.free.clone();
        Draft { free, ..Draft::fork(&self.snapshot, self.versions.clone()) }
    }

    /// Goes back to the content of an earlier copy of this draft, as one more change: rows that differ get a new
    /// version, so that evaluations remembered in between are updated from there. Rows of shards added since are freed.
    pub(crate) fn revert(&mut self, earlier: &Draft) {
        let left = std::mem::replace(&mut self.snapshot, earlier.snapshot.clone());
        self.free = earlier.free.clone();
        self.spare_tables.clear();
        let version = self.next_version();
        for shard in &left.shards {
            if shard.index == self.snapshot.shards.len() {
                let (index, rows) = (shard.index, 0..ROWS);
                self.snapshot.shards.push(Arc::new(Shard { index, version, ..Shard::default() }));
                self.free.extend(rows.map(|row| NodeRow::new(index, row)));
            }
            let now = &self.snapshot.shards[shard.index];
            if now.version == shard.version {
                continue;
            }
            let (then, was) = (&now.usage.version.0, &shard.usage.version.0);
            let changed: Vec<usize> = (0..ROWS).filter(|row| then[*row] != was[*row]).collect();
            let now = self.snapshot.shards.change(shard.index, version);
            changed.into_iter().for_each(|row| now.touch(row, version, RowChange::Other));
        }
    }

    /// Puts a node into the lowest free row.
    pub(crate) fn insert_node(&mut self, node: Node) -> NodeRow {
        let row = self.free.remove_min().unwrap_or_else(|| self.grow());
        let version = self.next_version();
        let domains = self.snapshot.topology.add_node(&node.facts().labels);
        self.snapshot.storage.add_node(node.facts().symbol, row);
        let is_fenced = self.snapshot.fences.contains(&*node.facts().name);
        let shard = self.change(row, version);
        shard.insert_node(row.row(), node, &domains, version);
        if is_fenced {
            shard.set_fenced(row.row(), true, version);
        }
        self.describe_devices(row);
        row
    }

    /// Fences the node of this name or lifts its fence, whether or not the cluster has the node now (S-FNC-2). Returns
    /// whether that changed anything.
    pub(crate) fn set_fenced(&mut self, name: &Arc<str>, is_fenced: bool) -> bool {
        let fences = &mut self.snapshot.fences;
        let is_changed = match is_fenced {
            true => fences.insert(name.clone()).is_none(),
            false => fences.remove(&**name).is_some(),
        };
        if is_changed && let Some(row) = self.snapshot.row_named(name) {
            let version = self.next_version();
            self.change(row, version).set_fenced(row.row(), is_fenced, version);
        }
        is_changed
    }

    /// Replaces the node object of a row.
    pub(crate) fn replace_node(&mut self, row: NodeRow, node: Node) {
        let version = self.next_version();
        let domains = self.snapshot.topology.add_node(&node.facts().labels);
        if let Some(old) = self.snapshot.node(row).cloned() {
            self.snapshot.topology.remove_node(&old.facts().labels);
        }
        self.change(row, version).replace_node(row.row(), node, &domains, version);
    }

    /// Frees a row; returns its pods.
    pub(crate) fn remove_node(&mut self, row: NodeRow) -> Vec<PlacedPod> {
        let version = self.next_version();
        if let Some(old) = self.snapshot.node(row).cloned() {
            self.snapshot.topology.remove_node(&old.facts().labels);
            self.snapshot.storage.remove_node(old.facts().symbol);
        }
        let pods = self.change(row, version).remove_node(row.row(), version);
        for placed in &pods {
            self.unindex_pod(row, &placed.pod, version);
        }
        self.describe_devices(row);
        self.free.insert(row);
        pods
    }

    /// Puts a pod onto the node of a row.
    pub(crate) fn add_pod(&mut self, row: NodeRow, pod: Pod, assumed: Option<AssumptionStamp>) {
        self.take_room(row, &pod);
        self.list_pod(row, pod, assumed);
    }

    /// Takes the room of a pod, the part of [`Draft::add_pod`] that matters to pods that read no other pod.
    /// [`Draft::list_pod`] has to follow before a pod comes that does.
    pub(crate) fn take_room(&mut self, row: NodeRow, pod: &Pod) {
        let version = self.next_version();
        self.change(row, version).take_room(row.row(), pod, version);
    }

    /// Lists a pod in its row and in every index, the other part of [`Draft::add_pod`].
    pub(crate) fn list_pod(&mut self, row: NodeRow, pod: Pod, assumed: Option<AssumptionStamp>) {
        let Snapshot { shards, populations, terms, storage, .. } = &mut self.snapshot;
        let version = shards[row.shard()].usage.version[row.row()];
        populations.add(pod.population(), row);
        for term in owned_terms(&pod) {
            terms.add(term, row, version);
        }
        storage.add_pod(row, &pod, version);
        self.spare_tables.forget_since(row.shard(), version);
        self.amend(row).list_pod(row.row(), pod, assumed);
    }

    pub(crate) fn remove_pod(&mut self, row: NodeRow, pod: &Pod) {
        let version = self.next_version();
        self.unindex_pod(row, pod, version);
        self.change(row, version).remove_pod(row.row(), pod, version);
    }

    /// Takes a pod of this name off a row, if it is there, with its assumed bindings.
    pub(crate) fn evict(&mut self, row: NodeRow, pod: &PodKey) {
        let placed = self.snapshot.shards[row.shard()].pods.find(row.row(), pod);
        if let Some(pod) = placed.map(|placed| placed.pod.clone()) {
            self.release_bindings(pod.key());
            self.remove_pod(row, &pod);
        }
    }

    /// Replaces a pod on a row by one with the same facts, perhaps of a newer version.
    pub(crate) fn renew_pod(&mut self, row: NodeRow, pod: Pod) {
        self.spare_tables.forget(row.shard());
        self.amend(row).replace_pod(row.row(), pod, None);
    }

    /// Gives a pod on a row the highest priority, keeping its position, so that no pod evicts it.
    pub(crate) fn shield(&mut self, row: NodeRow, pod: &PodKey) {
        let Some(placed) = self.snapshot.shards[row.shard()].pods.find(row.row(), pod) else {
            return;
        };
        let facts = ShapeFacts { priority: i32::MAX, ..placed.shape.facts.clone() };
        let pod = placed.pod.changed(facts, &self.snapshot.model);
        let version = self.next_version();
        self.change(row, version).replace_pod(row.row(), pod, Some(version));
    }

    /// Nominates a pending pod to a node (S-PRE-21); an earlier nomination is replaced.
    pub(crate) fn nominate(&mut self, pod: &Pod, node: &str) {
        let node = self.snapshot.model.names().intern(node);
        let version = self.next_version();
        self.snapshot.nominations.remove(pod.key(), version);
        self.snapshot.nominations.add(pod, node, version);
    }

    /// Clears a pod's nomination, if it has one.
    pub(crate) fn clear_nomination(&mut self, pod: &PodKey) {
        if self.snapshot.nominations.has(pod) {
            let version = self.next_version();
            self.snapshot.nominations.remove(pod, version);
        }
    }

    /// Adds an object or replaces the one of its key.
    pub(crate) fn upsert_object(&mut self, object: &Object) {
        let version = self.next_version();
        let old = self.snapshot.objects.insert(object);
        enter(&mut self.snapshot, old.as_ref().map(Object::facts), object.facts(), version);
        self.touch_devices(version);
    }

    pub(crate) fn delete_object(&mut self, key: &ObjectKey) {
        let version = self.next_version();
        if let Some(object) = self.snapshot.objects.remove(key) {
            take_out(&mut self.snapshot, object.facts(), version);
            self.touch_devices(version);
        }
    }

    /// Takes the devices that were allocated for an assumed pod (S-DRA-93).
    fn assume_claims(&mut self, pod: &PodKey, claims: Arc<AssumedClaims>) {
        let version = self.next_version();
        self.snapshot.devices.assume(pod, claims, version);
        self.touch_devices(version);
    }

    /// Gives back the devices that are in flight for a pod; returns what was allocated for it.
    fn release_claims(&mut self, pod: &PodKey) -> Option<Arc<AssumedClaims>> {
        let version = self.next_version();
        let released = self.snapshot.devices.release(pod, version);
        self.touch_devices(version);
        released
    }

    /// Frees the devices of claims that only this pod has reserved, as the controller of claims does once the pod is
    /// gone.
    pub(crate) fn free_claims(&mut self, pod: &Pod) {
        let Some(claims) = &pod.facts().device_claims else { return };
        let names = claims.entries.iter().filter_map(|entry| entry.source.own_claim());
        let names: Vec<_> = names.chain(claims.extended.iter().map(|own| &own.claim)).collect();
        for name in names {
            let (namespace, name) = (pod.key().namespace.clone(), name.clone());
            let Some(known) = self.snapshot.devices.claim(&ClaimKey { namespace, name }).cloned()
            else {
                continue;
            };
            if known.allocation.is_some()
                && known.reserved_for.iter().all(|uid| **uid == *pod.uid())
            {
                let version = self.next_version();
                self.snapshot.devices.free(&known, version);
                self.touch_devices(version);
            }
        }
    }

    /// Marks the rows as changed whose nodes see other devices now, or of whose devices others are allocated.
    fn touch_devices(&mut self, version: u64) {
        for node in self.snapshot.devices.take_touched() {
            if let Some(row) = self.snapshot.row_of(node) {
                self.change(row, version).touch(row.row(), version, RowChange::Other);
                self.describe_devices(row);
            }
        }
    }

    /// Describes the local devices of a row's node; none for a row without a node.
    fn describe_devices(&mut self, row: NodeRow) {
        let node = self.snapshot.node(row).map(|node| node.facts().symbol);
        let local = match node {
            Some(node) => self.snapshot.devices.local_to(node),
            None => Some(LocalRow::default()),
        };
        self.amend(row).set_devices(row.row(), local);
    }

    /// Takes what a pod assumed on the node of a row is bound to (S-VLB-9, S-DRA-93).
    pub(crate) fn assume_bindings(&mut self, pod: &Pod, row: NodeRow, bindings: &Bindings) {
        if let Some(node) = self.snapshot.node(row).map(|node| node.facts().symbol) {
            self.assume_bindings_on(pod, node, bindings);
        }
    }

    /// Takes what a pod assumed on a node is bound to, whether or not the cluster has the node.
    pub(crate) fn assume_bindings_on(&mut self, pod: &Pod, node: Symbol, bindings: &Bindings) {
        if let Some(devices) = &bindings.devices {
            let names = self.snapshot.model.names();
            let claims = assumed_claims((pod.key(), &pod.facts().uid), devices, names);
            debug_assert!(claims.is_ok(), "what was assigned can be read");
            if let Ok(claims) = claims {
                self.assume_claims(pod.key(), Arc::new(claims));
            }
        }
        if bindings.volumes == VolumeBindings::default() {
            return;
        }
        let version = self.next_version();
        self.snapshot.storage.assume(pod.key(), node, bindings.volumes.clone(), version);
    }

    /// Gives back what is bound in memory for a pod; returns it.
    pub(crate) fn release_bindings(&mut self, pod: &PodKey) -> Option<Released> {
        let version = self.next_version();
        let volumes = self.snapshot.storage.release(pod, version);
        let claims = self.release_claims(pod);
        (volumes.is_some() || claims.is_some()).then_some(Released { volumes, claims })
    }

    /// The volumes and devices that are bound for a pod in memory alone; `None` if there are none.
    pub(crate) fn bindings_of(&self, pod: &PodKey) -> Option<Bindings> {
        let Snapshot { storage, devices, .. } = &self.snapshot;
        let (volumes, devices) = (storage.assumed_of(pod), devices.assigned_to(pod));
        (volumes.is_some() || devices.is_some()).then(|| Bindings {
            volumes: volumes.cloned().unwrap_or_default(),
            devices: devices.cloned(),
        })
    }

    /// Takes released bindings again, except where the cluster's objects differ.
    pub(crate) fn restore_bindings(&mut self, pod: &PodKey, released: Released) {
        let version = self.next_version();
        if let Some(volumes) = released.volumes {
            self.snapshot.storage.restore(pod, volumes, version);
        }
        if let Some(claims) = released.claims {
            self.assume_claims(pod, claims);
        }
    }

    /// Removes a pod from every index over the cluster.
    fn unindex_pod(&mut self, row: NodeRow, pod: &Pod, version: u64) {
        let Snapshot { populations, terms, storage, .. } = &mut self.snapshot;
        populations.remove(pod.population(), row);
        for term in owned_terms(pod) {
            terms.remove(term, row, version);
        }
        storage.remove_pod(row, pod, version);
    }

    /// Copies the newest image counts into a row's entry (S-IL-5). An entry that is equal already stays as it is: it is
    /// shared with the published snapshot, and most changes of a node are of its pods.
    pub(crate) fn refresh_images(&mut self, row: NodeRow) {
        let Some(node) = self.snapshot.node(row) else {
            return;
        };
        let (entry, newest) = (&self.snapshot.shards[row.shard()].nodes, &self.snapshot.images);
        let names = node.facts().images.iter().map(|(name, _)| *name);
        if names.clone().all(|name| entry.image(row.row(), name) == newest.get(&name)) {
            return;
        }
        let states: Vec<(Symbol, ImageState)> =
            names.filter_map(|name| Some((name, *newest.get(&name)?))).collect();
        let version = self.next_version();
        let shard = self.change(row, version);
        Arc::make_mut(&mut shard.nodes).set_images(row.row(), &states);
        shard.touch(row.row(), version, RowChange::Other);
    }

    /// Replaces a row's image entry, so that it is as an earlier change found it.
    pub(crate) fn recall_images(&mut self, row: NodeRow, states: &[(Symbol, ImageState)]) {
        let version = self.next_version();
        let shard = self.change(row, version);
        Arc::make_mut(&mut shard.nodes).set_images(row.row(), states);
        shard.touch(row.row(), version, RowChange::Other);
    }

    /// Makes ports of a row's pods count as free (S-PRT-5).
    pub(crate) fn free_ports(&mut self, row: NodeRow, ports: &[HostPort]) {
        let version = self.next_version();
        let shard = self.change(row, version);
        Arc::make_mut(&mut shard.usage).free_ports(row.row(), ports);
        shard.touch(row.row(), version, RowChange::Other);
    }

    /// Puts the pods of a row into this order (S-PRE-12); others stay behind them.
    pub(crate) fn order_pods(&mut self, row: NodeRow, order: &[PodKey]) {
        let version = self.next_version();
        let shard = self.change(row, version);
        let position = |key: &PodKey| order.iter().position(|other| other == key);
        let pods = Arc::make_mut(&mut shard.pods).of_mut(row.row());
        pods.sort_by_key(|placed| position(placed.pod.key()).unwrap_or(order.len()));
        shard.touch(row.row(), version, RowChange::Other);
    }

    /// The shard of a row, for a change of the row with this version.
    fn change(&mut self, row: NodeRow, version: u64) -> &mut Shard {
        let shards = &mut self.snapshot.shards;
        let before = shards[row.shard()].version;
        let shard = shards.change(row.shard(), version);
        self.spare_tables.unshare(shard, before);
        shard
    }

    /// The shard of a row, for what changes the version of no row.
    fn amend(&mut self, row: NodeRow) -> &mut Shard {
        self.snapshot.shards.amend(row.shard())
    }

    fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends a shard; returns its first row, and frees the others.
    fn grow(&mut self) -> NodeRow {
        let shard = self.snapshot.shards.len();
        self.snapshot.shards.push(Arc::new(Shard {
            index: shard,
            version: self.next_version(),
            ..Shard::default()
        }));
        self.free.extend((1..ROWS).map(|row| NodeRow::new(shard, row)));
        NodeRow::new(shard, 0)
    }
}

impl AsMut<Objects> for Snapshot {
    fn as_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

impl AsMut<Devices> for Snapshot {
    fn as_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }
}

impl AsMut<Storage> for Snapshot {
    fn as_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }
}

macro_rules! indexes {
    ($($kind:ident($message:ty) { $($rest:tt)* })+) => {
        /// Enters an object's facts into the index of its kind, in place of those of the object of the same key.
        fn enter(snapshot: &mut Snapshot, old: Option<&ObjectFacts>, new: &ObjectFacts, version: u64) {
            match new {
                $(ObjectFacts::$kind(new) => {
                    let old = match old {
                        Some(ObjectFacts::$kind(old)) => Some(old),
                        _ => None,
                    };
                    Indexed::replace(snapshot.as_mut(), old, Some(new), version);
                })+
            }
        }

        /// Takes an object's facts out of the index of its kind.
        fn take_out(snapshot: &mut Snapshot, old: &ObjectFacts, version: u64) {
            match old {
                $(ObjectFacts::$kind(old) => {
                    Indexed::replace(snapshot.as_mut(), Some(old), None, version);
                })+
            }
        }
    };
}

object_kinds!(indexes);

fn owned_terms(pod: &Pod) -> impl Iterator<Item = &Arc<Term>> {
    pod.shape().facts.pod_affinity.iter().flat_map(|affinity| affinity.terms())
}
