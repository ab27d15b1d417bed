//! Storage: volumes, claims and classes by name, and their use by pods on nodes. Rules: S-VLR-2, S-VLL-3 to S-VLL-5,
//! S-VLB-9. Changes with deltas and assumed pods, never with a request.

mod anchored;
mod assumed;
mod assuming;
mod attachments;
mod claims;
mod disks;
mod hashed;
mod in_use;
mod installed;
mod volumes;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::indexed::Indexed;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::key::{ClaimKey, VolumeId};
use crate::model::storage::csi_driver::CsiDriver;
use crate::model::storage::csi_node::CsiNode;
use crate::model::storage::csi_storage_capacity::CsiStorageCapacity;
use crate::model::storage::persistent_volume::PersistentVolume;
use crate::model::storage::persistent_volume_claim::PersistentVolumeClaim;
use crate::model::storage::storage_class::StorageClass;
use crate::model::storage::volume_attachment::VolumeAttachment;
use crate::model::volume::PodClaim;
use crate::rows::NodeRow;
use anchored::Anchored;
pub(crate) use assumed::Assumption;
use assumed::Assumptions;
use attachments::AttachmentIndex;
use claims::{ClaimIndex, ClaimUser};
use disks::DiskIndex;
use in_use::{Holder, InUse};
use installed::Installed;
use volumes::VolumeIndex;

/// Storage objects and their use. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Storage {
    /// Version that changes whenever an object changes, a pod with volumes is added or removed, or a binding is assumed
    /// or released: equal versions mean equal volumes, claims and users.
    pub(crate) version: u64,
    pub(crate) volumes: VolumeIndex,
    pub(crate) claims: ClaimIndex,
    pub(crate) disks: DiskIndex,
    pub(crate) in_use: InUse,
    /// Capacity reports with an amount, by class and by the labels of their nodes.
    pub(crate) capacities: Anchored<(Arc<str>, Arc<str>), Arc<CsiStorageCapacity>>,
    classes: OrdMap<Symbol, Arc<StorageClass>>,
    /// Drivers that report capacity.
    reporting_drivers: OrdSet<Symbol>,
    /// Drivers without which no pod that needs them may run on a node.
    required_drivers: OrdSet<Symbol>,
    pub(crate) installed: Installed,
    csi_nodes: OrdMap<Symbol, Arc<CsiNode>>,
    attachments: AttachmentIndex,
    assumptions: Assumptions,
    /// The rows of nodes by name.
    rows: OrdMap<Symbol, NodeRow>,
}

/// A volume in use on a row, with its user.
type Use = (VolumeId, NodeRow, Holder);

impl Storage {
    pub(crate) fn class(&self, name: Symbol) -> Option<&StorageClass> {
        self.classes.get(&name).map(|class| &**class)
    }

    /// The row of a node.
    pub(crate) fn row_of(&self, node: Symbol) -> Option<NodeRow> {
        self.rows.get(&node).copied()
    }

    /// Whether any node has a CSINode object.
    pub(crate) fn has_csi_nodes(&self) -> bool {
        !self.csi_nodes.is_empty()
    }

    /// Whether claims for a driver need a report of enough capacity (S-VLB-7).
    pub(crate) fn reports_capacity(&self, driver: Symbol) -> bool {
        self.reporting_drivers.contains(&driver)
    }

    /// Whether pods may only run on nodes with a driver that their volumes need (S-137-20).
    pub(crate) fn requires(&self, driver: Symbol) -> bool {
        self.required_drivers.contains(&driver)
    }

    /// The driver that a claim needs on the pod's node, and whether it was translated from an in-tree plugin (S-137-21 to
    /// S-137-23).
    pub(crate) fn needed_driver(&self, claim: &PersistentVolumeClaim) -> Option<(Symbol, bool)> {
        if let Some(volume) = claim.volume.as_ref().and_then(|name| self.volumes.get(name)) {
            return Some((volume.counted.as_ref()?.driver, !volume.is_csi));
        }
        let class = self.class(claim.class)?;
        let driver = class.counted_by?;
        Some((driver, class.provisioner != Some(driver)))
    }

    /// The volume of a claim as it counts (S-VLL-3), by the volume and the class as they are now.
    fn counted(&self, claim: &PersistentVolumeClaim) -> Option<VolumeId> {
        if let Some(volume) = claim.volume.as_ref().and_then(|name| self.volumes.get(name)) {
            return volume.counted.clone();
        }
        let driver = self.class(claim.class)?.counted_by?;
        Some(VolumeId::of_claim(driver, claim.key.clone()))
    }

    /// Adds a node on a row.
    pub(crate) fn add_node(&mut self, node: Symbol, row: NodeRow) {
        self.rows.insert(node, row);
        self.set_csi_node(node, true);
        for attached in self.attached_uses(&self.attachments.of_node(node)) {
            self.in_use.add(&attached.0, attached.1, attached.2);
        }
    }

    /// Removes a node from its row.
    pub(crate) fn remove_node(&mut self, node: Symbol) {
        for attached in self.attached_uses(&self.attachments.of_node(node)) {
            self.in_use.remove(&attached.0, attached.1, attached.2);
        }
        self.set_csi_node(node, false);
        self.rows.remove(&node);
    }

    /// Adds a pod on a row.
    pub(crate) fn add_pod(&mut self, row: NodeRow, pod: &Pod, version: u64) {
        let Some(volumes) = pod.volumes() else { return };
        self.version = version;
        volumes.disks.iter().for_each(|disk| self.disks.add(disk, row));
        volumes.inline.iter().for_each(|volume| self.in_use.add(volume, row, Holder::Pod));
        for claim in &volumes.claims {
            let user = user_of(claim, pod, row);
            if self.claims.add_user(&claim.key, &user)
                && let Some(volume) = self.claims.counted_for(&claim.key, &user)
            {
                self.in_use.add(volume, row, Holder::Pod);
            }
        }
    }

    /// The volumes that count while a pod is on a row, sorted, without duplicates.
    pub(crate) fn volumes_of(&self, pod: &Pod, row: NodeRow) -> Vec<VolumeId> {
        let Some(volumes) = pod.volumes() else { return Vec::new() };
        let claimed = volumes
            .claims
            .iter()
            .filter_map(|claim| self.claims.counted_for(&claim.key, &user_of(claim, pod, row)));
        let mut counted: Vec<VolumeId> = claimed.chain(&volumes.inline).cloned().collect();
        counted.sort_unstable();
        counted.dedup();
        counted
    }

    /// Removes a pod from a row.
    pub(crate) fn remove_pod(&mut self, row: NodeRow, pod: &Pod, version: u64) {
        let Some(volumes) = pod.volumes() else { return };
        self.version = version;
        volumes.disks.iter().for_each(|disk| self.disks.remove(disk, row));
        volumes.inline.iter().for_each(|volume| self.in_use.remove(volume, row, Holder::Pod));
        for claim in &volumes.claims {
            let user = user_of(claim, pod, row);
            if self.claims.remove_user(&claim.key, &user)
                && let Some(volume) = self.claims.counted_for(&claim.key, &user)
            {
                self.in_use.remove(volume, row, Holder::Pod);
            }
        }
    }

    /// Applies a change that may affect the volumes of these claims and attachments, and counts them again.
    ///
    /// Cost: one step for each row that has users of one of the claims.
    fn recounting(
        &mut self,
        claims: &[ClaimKey],
        attachments: &[Arc<str>],
        change: impl FnOnce(&mut Storage),
    ) {
        let uses = |storage: &Storage| {
            let mut uses = storage.claimed_uses(claims);
            uses.extend(storage.attached_uses(attachments));
            uses
        };
        let before = uses(self);
        change(self);
        for key in claims {
            let counted = self.claims.get(key).and_then(|claim| self.counted(claim));
            self.claims.set_counted(key, counted);
        }
        let after = uses(self);
        if before != after {
            before
                .iter()
                .for_each(|(volume, row, holder)| self.in_use.remove(volume, *row, *holder));
            after.iter().for_each(|(volume, row, holder)| self.in_use.add(volume, *row, *holder));
        }
    }

    fn claimed_uses(&self, claims: &[ClaimKey]) -> Vec<Use> {
        let uses = claims.iter().flat_map(|key| {
            let users = self.claims.users_of(key);
            users.filter_map(|user| {
                let volume = self.claims.counted_for(key, user)?;
                Some((volume.clone(), user.row, Holder::Pod))
            })
        });
        uses.collect()
    }

    /// Uses by attachments to nodes of the cluster, of volumes that CSI drivers provisioned.
    fn attached_uses(&self, attachments: &[Arc<str>]) -> Vec<Use> {
        let uses = attachments.iter().filter_map(|name| {
            let attachment = self.attachments.get(name)?;
            let (attacher, volume) = attachment.attached.as_ref()?;
            let volume = self.volumes.get(volume).filter(|volume| volume.is_csi)?;
            let row = self.rows.get(&attachment.node)?;
            Some((volume.counted.as_ref()?.under(*attacher), *row, Holder::Attachment))
        });
        uses.collect()
    }

    /// Sets or removes the drivers and limits of a node's CSINode, where both exist.
    fn set_csi_node(&mut self, node: Symbol, is_set: bool) {
        let (Some(csi_node), Some(row)) = (self.csi_nodes.get(&node), self.rows.get(&node)) else {
            return;
        };
        self.installed.set(*row, &csi_node.drivers, is_set);
        for (driver, limit) in &csi_node.limits {
            self.in_use.set_limit(*driver, *row, is_set.then_some(*limit));
        }
    }
}

impl Indexed for PersistentVolume {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<PersistentVolume>>,
        new: Option<&Arc<PersistentVolume>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(name) = new.or(old).map(|volume| &volume.name) else { return };
        let (claims, attachments) =
            (storage.claims.of_volume(name), storage.attachments.of_volume(name));
        storage.recounting(&claims, &attachments, |storage| {
            storage.volumes.replace(name, new, &storage.claims);
        });
    }
}

impl Indexed for PersistentVolumeClaim {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<PersistentVolumeClaim>>,
        new: Option<&Arc<PersistentVolumeClaim>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(key) = new.or(old).map(|claim| &claim.key) else { return };
        let assumed = storage.volumes.assumed_for(key);
        assumed.iter().for_each(|name| storage.volumes.unindex(name, &storage.claims));
        storage.recounting(std::slice::from_ref(key), &[], |storage| {
            storage.claims.replace(key, new);
        });
        assumed.iter().for_each(|name| storage.volumes.index(name, &storage.claims));
    }
}

impl Indexed for StorageClass {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<StorageClass>>,
        new: Option<&Arc<StorageClass>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(name) = new.or(old).map(|class| class.name) else { return };
        // Claims count anew only where another driver counts them now: a class may have very many.
        let before = storage.class(name).and_then(|known| known.counted_by);
        let after = new.and_then(|class| class.counted_by);
        let claims = if before == after { Vec::new() } else { storage.claims.of_class(name) };
        storage.recounting(&claims, &[], |storage| set(&mut storage.classes, name, new));
    }
}

impl Indexed for CsiNode {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<CsiNode>>,
        new: Option<&Arc<CsiNode>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(node) = new.or(old).map(|csi_node| csi_node.node) else { return };
        storage.set_csi_node(node, false);
        set(&mut storage.csi_nodes, node, new);
        storage.set_csi_node(node, true);
    }
}

impl Indexed for CsiDriver {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<CsiDriver>>,
        new: Option<&Arc<CsiDriver>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(name) = new.or(old).map(|driver| driver.name) else { return };
        let mut set = |drivers: fn(&mut Storage) -> &mut OrdSet<Symbol>, is_in: bool| {
            let drivers = drivers(storage);
            if is_in {
                drivers.insert(name)
            } else {
                drivers.remove(&name)
            };
        };
        set(|s| &mut s.reporting_drivers, new.is_some_and(|driver| driver.reports_capacity));
        set(|s| &mut s.required_drivers, new.is_some_and(|driver| driver.is_required));
    }
}

impl Indexed for CsiStorageCapacity {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<CsiStorageCapacity>>,
        new: Option<&Arc<CsiStorageCapacity>>,
        version: u64,
    ) {
        storage.version = version;
        // A report is found by more than its name.
        if let Some(old) = old {
            storage.capacities.remove(old.class, old.anchors(), &capacity_key(old));
        }
        if let Some(new) = new {
            storage.capacities.insert(new.class, new.anchors(), &capacity_key(new), new);
        }
    }
}

impl Indexed for VolumeAttachment {
    type Index = Storage;

    fn replace(
        storage: &mut Storage,
        old: Option<&Arc<VolumeAttachment>>,
        new: Option<&Arc<VolumeAttachment>>,
        version: u64,
    ) {
        storage.version = version;
        let Some(name) = new.or(old).map(|attachment| &attachment.name) else { return };
        storage.recounting(&[], std::slice::from_ref(name), |storage| {
            storage.attachments.replace(name, new);
        });
    }
}

fn capacity_key(capacity: &CsiStorageCapacity) -> (Arc<str>, Arc<str>) {
    (capacity.namespace.clone(), capacity.name.clone())
}

fn set<V: Clone>(map: &mut OrdMap<Symbol, V>, key: Symbol, value: Option<&V>) {
    match value {
        Some(value) => map.insert(key, value.clone()),
        None => map.remove(&key),
    };
}

fn user_of(claim: &PodClaim, pod: &Pod, row: NodeRow) -> ClaimUser {
    let owner = claim.is_ephemeral().then(|| pod.facts().uid.clone());
    ClaimUser { row, owner }
}
