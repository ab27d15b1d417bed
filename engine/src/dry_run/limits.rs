//! Limits: state of NodeVolumeLimits on one node. Rules: S-VLL-2 to S-VLL-5, S-137-27.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::key::VolumeId;
use crate::prepared::Prepared;
use crate::prepared::volumes::limits::{DriverDemand, Limits as Found};
use crate::rows::NodeRow;
use crate::snapshot::shard::Shard;
use crate::snapshot::storage::Storage;

/// Volumes in use of the pod's drivers that have a limit.
pub(super) struct Limits<'p> {
    storage: &'p Storage,
    found: &'p Found,
    row: NodeRow,
    /// A driver that the pod needs and the node lacks, whatever pods there are.
    lacked: Option<Symbol>,
    drivers: SmallVec<[DriverUse<'p>; 1]>,
    /// Number of pods on the node by volume.
    n_pods: BTreeMap<VolumeId, i64>,
}

struct DriverUse<'p> {
    demand: &'p DriverDemand,
    limit: i64,
    in_use: i64,
}

pub(super) fn of<'p>(prepared: &'p Prepared<'_>) -> Option<&'p Found> {
    prepared.volumes().found().map(|found| &found.limits)
}

/// Whether the filter applies (S-VLL-1).
pub(super) fn applies(prepared: &Prepared<'_>) -> bool {
    of(prepared).is_some_and(|found| found.refusal.is_some() || !found.demands.is_empty())
}

impl<'p> Limits<'p> {
    /// Counts volumes in use. Cost: one lookup for each volume of each pod on the node, where a limit is set.
    pub(super) fn on(
        prepared: &'p Prepared<'_>,
        found: &'p Found,
        shard: &Shard,
        row: usize,
    ) -> Limits<'p> {
        let storage = &prepared.snapshot().storage;
        let drivers = found.demands.iter().filter_map(|demand| {
            let counts = storage.in_use.counts(demand.driver, shard.index)?;
            counts.limited.contains(row).then(|| DriverUse {
                demand,
                limit: i64::from(counts.limit[row]),
                in_use: i64::from(counts.in_use[row]),
            })
        });
        let row_of_cluster = NodeRow::new(shard.index, row);
        let mut limits = Limits {
            storage,
            found,
            row: row_of_cluster,
            lacked: found.lacked(storage, row_of_cluster),
            drivers: drivers.collect(),
            n_pods: BTreeMap::new(),
        };
        if !limits.drivers.is_empty() {
            for placed in shard.pods.of(row) {
                for volume in storage.volumes_of(&placed.pod, row_of_cluster) {
                    *limits.n_pods.entry(volume).or_insert(0) += 1;
                }
            }
        }
        limits
    }

    pub(super) fn change(&mut self, pod: &Pod, by: i64) {
        if self.drivers.is_empty() {
            return;
        }
        for volume in self.storage.volumes_of(pod, self.row) {
            let driver = self.drivers.iter_mut().find(|used| used.demand.driver == volume.driver);
            let n_pods = self.n_pods.entry(volume.clone()).or_insert(0);
            let was_used = *n_pods > 0;
            *n_pods += by;
            let is_used = *n_pods > 0;
            if let Some(driver) = driver
                && was_used != is_used
                && !self.storage.in_use.is_attached(&volume, self.row)
            {
                driver.in_use += by;
            }
        }
    }

    pub(super) fn are_kept(&self) -> bool {
        self.found.refusal.is_none()
            && self.lacked.is_none()
            && self.drivers.iter().all(|driver| self.is_kept(driver))
    }

    /// Whether the driver can attach the pod's new volumes, if any (S-VLL-5).
    fn is_kept(&self, driver: &DriverUse<'_>) -> bool {
        let is_new = |volume: &&VolumeId| self.n_pods.get(*volume).is_none_or(|n| *n <= 0);
        let n_new = driver.demand.volumes.iter().filter(is_new).count() as i64;
        n_new == 0 || driver.in_use + n_new <= driver.limit
    }

    pub(super) fn refusal(&self, prepared: &Prepared<'_>) -> Option<Refusal> {
        if let Some(why) = &self.found.refusal {
            return Some(Refusal::of(Reason::ClaimLookup(prepared.text(why))));
        }
        if let Some(driver) = self.lacked {
            return Some(Refusal::of(Reason::MissingDriver(driver)));
        }
        (!self.are_kept()).then(|| Refusal::of(Reason::MaxVolumeCount))
    }
}
