//! Matching: a claim that waits for its first consumer, and the volumes or the capacity for it on each row. Rules:
//! S-VLB-5 to S-VLB-7.

use std::sync::Arc;

use crate::model::intern::Symbol;
use crate::model::storage::csi_storage_capacity::CsiStorageCapacity;
use crate::model::storage::persistent_volume::PersistentVolume;
use crate::model::storage::persistent_volume_claim::PersistentVolumeClaim;
use crate::model::storage::storage_class::StorageClass;
use crate::rows::RowSet;
use crate::snapshot::Snapshot;
use crate::snapshot::matching::{matching, matching_term};
use crate::snapshot::shard::Shard;
use crate::snapshot::storage::Storage;

/// A claim that is bound once its pod's node is chosen.
pub(super) struct DelayedClaim<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) class: &'a StorageClass,
    /// The node for which a driver provisions already.
    pub(super) selected_node: Option<Symbol>,
    /// Suitable volumes reserved for this claim, by name: if there are any, only the first one is considered.
    reserved: Vec<&'a PersistentVolume>,
    /// Whether any volume could be bound to the claim.
    pub(super) has_candidates: bool,
    /// The number of bytes that a capacity report must have; `None` where no report is required.
    pub(super) size: Option<i64>,
}

impl<'a> DelayedClaim<'a> {
    pub(super) fn find(
        storage: &'a Storage,
        claim: &'a PersistentVolumeClaim,
        class: &'a StorageClass,
    ) -> DelayedClaim<'a> {
        let reserved: Vec<_> = storage
            .volumes
            .claimed_by(&claim.key, &claim.uid)
            .filter(|volume| volume.class == claim.class && is_large_enough(claim, volume))
            .filter(|volume| is_of_kind(claim, volume) && !volume.is_deleting)
            .collect();
        let asks = class.provisioner.is_some_and(|driver| storage.reports_capacity(driver));
        DelayedClaim {
            claim,
            class,
            selected_node: storage.claims.selected_node(claim),
            has_candidates: !reserved.is_empty() || storage.volumes.free().has(claim.class),
            reserved,
            size: claim.request.filter(|_| asks).map(|request| request.value()),
        }
    }

    /// The rows among `rows` with a volume for the claim, regardless of the pod's other claims.
    ///
    /// Cost: one lookup for each value that the rows have of a label by which volumes of the class are tied to nodes,
    /// and one step for each volume until one fits.
    pub(super) fn matched(&self, snapshot: &Snapshot, shard: &Shard, rows: &RowSet) -> RowSet {
        let names = snapshot.model.names();
        let reach = |volume: &PersistentVolume, rows: RowSet| match &volume.node_affinity {
            Some(affinity) => matching(affinity, &shard.nodes, rows, names),
            None => rows,
        };
        if let Some(reserved) = self.reserved.first() {
            return reach(reserved, *rows);
        }
        let mut matched = RowSet::EMPTY;
        let free = snapshot.storage.volumes.free();
        free.visit(self.claim.class, &self.least(), &shard.nodes, rows, |volume, rows| {
            let open = rows.without(&matched);
            if !open.is_empty() && is_suitable(self.claim, volume) {
                matched.union(&reach(volume, open));
            }
            matched
        });
        matched
    }

    /// The volume for the claim on a row, without those in `chosen`: the reserved one, or the smallest.
    pub(super) fn volume_for(
        &self,
        snapshot: &'a Snapshot,
        shard: &Shard,
        row: usize,
        chosen: &[&'a PersistentVolume],
    ) -> Option<&'a PersistentVolume> {
        let here: RowSet = [row].into_iter().collect();
        let names = snapshot.model.names();
        let reaches = |volume: &PersistentVolume| {
            let affinity = volume.node_affinity.as_ref();
            affinity
                .is_none_or(|affinity| !matching(affinity, &shard.nodes, here, names).is_empty())
        };
        let is_gone = |volume: &PersistentVolume| chosen.iter().any(|c| c.name == volume.name);
        if let Some(reserved) = self.reserved.iter().find(|volume| !is_gone(volume)) {
            return Some(*reserved).filter(|volume| reaches(volume));
        }
        let mut smallest: Option<&PersistentVolume> = None;
        let free = snapshot.storage.volumes.free();
        free.visit(self.claim.class, &self.least(), &shard.nodes, &here, |volume, rows| {
            if is_gone(volume) || !is_suitable(self.claim, volume) || !reaches(volume) {
                return RowSet::EMPTY;
            }
            if smallest.is_none_or(|known| order(volume) < order(known)) {
                smallest = snapshot.storage.volumes.get(&volume.name);
            }
            *rows
        });
        smallest
    }

    /// The rows among `rows` where the class's provisioner may create volumes.
    pub(super) fn rows_allowed(&self, snapshot: &Snapshot, shard: &Shard, rows: RowSet) -> RowSet {
        if self.class.provisioner.is_none() {
            return RowSet::EMPTY;
        }
        match &self.class.allowed_topologies {
            Some(topologies) => matching(topologies, &shard.nodes, rows, snapshot.model.names()),
            None => rows,
        }
    }

    /// The rows among `rows` with a report of enough capacity, where one is required.
    pub(super) fn rows_with_space(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        rows: RowSet,
    ) -> RowSet {
        if self.size.is_none() {
            return rows;
        }
        let mut roomy = RowSet::EMPTY;
        self.visit_reports(snapshot, shard, &rows, |_, rows| roomy.union(rows));
        roomy
    }

    /// Visits the reports of enough capacity for nodes of `rows`, with the rows that they are for. The order is arbitrary,
    /// and a row may be left out of all but the first reports by namespace and name under each label of its node.
    pub(super) fn visit_reports(
        &self,
        snapshot: &Snapshot,
        shard: &Shard,
        rows: &RowSet,
        mut visit: impl FnMut(&Arc<CsiStorageCapacity>, &RowSet),
    ) {
        let Some(size) = self.size else { return };
        let first = (Arc::from(""), Arc::from(""));
        let reports = &snapshot.storage.capacities;
        reports.visit(self.class.name, &first, &shard.nodes, rows, |report, rows| {
            let is_enough = report.largest.is_some_and(|largest| largest >= size);
            let Some(topology) = report.topology.as_ref().filter(|_| is_enough) else {
                return RowSet::EMPTY;
            };
            let names = snapshot.model.names();
            let roomy = matching_term(topology, &shard.nodes, *rows, names);
            visit(report, &roomy);
            roomy
        });
    }

    /// The first key in the order of free volumes that may suit this claim.
    fn least(&self) -> (berth_proto::Amount, Arc<str>) {
        (self.claim.request.unwrap_or_default(), Arc::from(""))
    }
}

fn order(volume: &PersistentVolume) -> (berth_proto::Amount, &str) {
    (volume.capacity, &volume.name)
}

fn is_large_enough(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.capacity >= claim.request.unwrap_or_default()
}

fn is_of_kind(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.volume_mode == claim.volume_mode && volume.attributes_class == claim.attributes_class
}

/// Whether an unclaimed volume of the claim's class that is large enough suits the claim (S-VLB-6).
fn is_suitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    is_of_kind(claim, volume)
        && volume.access_modes.contains_all(claim.access_modes)
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
}
