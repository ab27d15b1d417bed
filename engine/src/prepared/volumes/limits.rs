//! Limits: the volumes that a pod would add to each driver on a node, and the drivers that it needs there. Rules:
//! S-VLL-1 to S-VLL-3, S-VLL-5, S-137-20 to S-137-25.

use smallvec::SmallVec;

use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::key::VolumeId;
use crate::model::volume::PodVolumes;
use crate::policy::Policy;
use crate::prepared::volumes::lookup::{CLAIMS, not_found};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::storage::Storage;

/// Facts that NodeVolumeLimits needs.
pub(crate) struct Limits {
    /// Why every node is refused: a claim that does not exist (S-VLL-2).
    pub(crate) refusal: Option<String>,
    /// Why the attempt fails: a volume that cannot be identified.
    pub(crate) error: Option<String>,
    pub(crate) demands: SmallVec<[DriverDemand; 1]>,
    /// Drivers without which the pod may not run on a node, by name; none before v1.37.
    pub(crate) needs: SmallVec<[NeededDriver; 1]>,
}

/// A driver that a node has to have.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NeededDriver {
    pub(crate) driver: Symbol,
    /// Whether only in-tree volumes need it, which are not translated on nodes without a CSINode.
    pub(crate) is_translated: bool,
}

/// The volumes of one driver.
pub(crate) struct DriverDemand {
    pub(crate) driver: Symbol,
    /// The pod's volumes, sorted, without duplicates.
    pub(crate) volumes: Vec<VolumeId>,
    pub(crate) n_volumes: i32,
    /// Rows where pods already use some of these volumes, sorted, with the number of such volumes.
    pub(crate) shared: Vec<(NodeRow, i32)>,
}

impl Limits {
    /// Looks up the volumes. Cost: a few lookups for each volume, and one step for each row with pods that share one.
    pub(super) fn find(
        storage: &Storage,
        pod: &Pod,
        volumes: &PodVolumes,
        policy: &Policy,
    ) -> Limits {
        let mut limits =
            Limits { refusal: None, error: None, demands: SmallVec::new(), needs: SmallVec::new() };
        let mut wanted = volumes.inline.clone();
        let mut needed: SmallVec<[(Symbol, bool); 4]> =
            wanted.iter().map(|volume| (volume.driver, true)).collect();
        for claim in &volumes.claims {
            let key = &claim.key;
            if key.name.is_empty() {
                limits.error = Some("PersistentVolumeClaim had no name".to_owned());
                return limits;
            }
            let Some(known) = storage.claims.get(key) else {
                let why = not_found(CLAIMS, &key.name);
                let why = format!("looking up PVC {}/{}: {why}", key.namespace, key.name);
                limits.refusal = Some(why);
                return limits;
            };
            if claim.is_ephemeral() && !known.is_owned_by(pod.uid()) {
                limits.error = Some(super::binding::not_owner(key, pod));
                return limits;
            }
            wanted.extend(storage.claims.counted(key).cloned());
            needed.extend(storage.needed_driver(known));
        }
        // An inline disk is translated only where some node could count it.
        limits.error = volumes.invalid.clone().filter(|_| storage.has_csi_nodes());
        wanted.sort_unstable();
        wanted.dedup();
        let drivers = wanted.chunk_by(|a, b| a.driver == b.driver);
        limits.demands = drivers.map(|volumes| DriverDemand::of(volumes, storage)).collect();
        if policy.spec().kubernetes_version.requires_drivers() {
            limits.needs = NeededDriver::of(needed, storage);
        }
        limits
    }

    /// The first driver by name, among those that the pod needs, that a row lacks.
    pub(crate) fn lacked(&self, storage: &Storage, row: NodeRow) -> Option<Symbol> {
        let only: RowSet = [row.row()].into_iter().collect();
        let lacks =
            |needed: &&NeededDriver| !needed.lacking(storage, row.shard(), &only).is_empty();
        self.needs.iter().find(lacks).map(|needed| needed.driver)
    }
}

impl NeededDriver {
    /// The required drivers among those of the pod's volumes, each with whether the volume was translated.
    fn of(mut needed: SmallVec<[(Symbol, bool); 4]>, storage: &Storage) -> SmallVec<[Self; 1]> {
        // For each driver a volume that was not translated comes first.
        needed.sort_unstable();
        needed.dedup_by_key(|(driver, _)| *driver);
        let required = needed.into_iter().filter(|(driver, _)| storage.requires(*driver));
        required.map(|(driver, is_translated)| NeededDriver { driver, is_translated }).collect()
    }

    /// The rows among `rows` that lack the driver (S-137-21, S-137-22).
    pub(crate) fn lacking(&self, storage: &Storage, shard: usize, rows: &RowSet) -> RowSet {
        let mut lacking = rows.without(&storage.installed.rows(self.driver, shard));
        if self.is_translated {
            lacking.intersect(&storage.installed.with_csi_node(shard));
        }
        lacking
    }
}

/// The volumes of one driver on a row.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct DriverOnRow {
    /// Number of volumes that the pod adds there.
    pub(crate) asked: i64,
    /// Number of volumes in use.
    pub(crate) in_use: i64,
    /// The largest number; `None` where there is no limit.
    pub(crate) limit: Option<i64>,
}

impl DriverOnRow {
    /// Number of volumes beyond the limit with the pod; 0 where it fits (S-VLL-5).
    pub(crate) fn excess(self) -> i64 {
        match self.limit {
            Some(limit) if self.asked > 0 => (self.in_use + self.asked - limit).max(0),
            _ => 0,
        }
    }
}

impl DriverDemand {
    /// The demand beside the use and the limit of a row.
    pub(crate) fn on_row(&self, storage: &Storage, row: NodeRow) -> DriverOnRow {
        let counts = storage.in_use.counts(self.driver, row.shard());
        let limited = counts.filter(|counts| counts.limited.contains(row.row()));
        // Volumes that pods on the row use already are not additional.
        let shared = self.shared.binary_search_by_key(&row, |(row, _)| *row);
        let n_shared = shared.map_or(0, |i| self.shared[i].1);
        DriverOnRow {
            asked: i64::from(self.n_volumes - n_shared),
            in_use: counts.map_or(0, |counts| i64::from(counts.in_use[row.row()])),
            limit: limited.map(|counts| i64::from(counts.limit[row.row()])),
        }
    }

    /// The demand of one driver; `volumes` are distinct and not empty.
    fn of(volumes: &[VolumeId], storage: &Storage) -> DriverDemand {
        let mut rows: Vec<NodeRow> =
            volumes.iter().flat_map(|volume| storage.in_use.rows_of(volume)).collect();
        rows.sort_unstable();
        let count = |list: &[_]| i32::try_from(list.len()).unwrap_or(i32::MAX);
        let shared = rows.chunk_by(|a, b| a == b).map(|same| (same[0], count(same)));
        DriverDemand {
            driver: volumes[0].driver,
            volumes: volumes.to_vec(),
            n_volumes: i32::try_from(volumes.len()).unwrap_or(i32::MAX),
            shared: shared.collect(),
        }
    }
}
