//! Restrictions: state of VolumeRestrictions on one node. Rules: S-VLR-3 to S-VLR-6.

use smallvec::SmallVec;

use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::model::volume::{Disk, DiskKey};
use crate::prepared::Prepared;
use crate::prepared::volumes::restrictions::Restrictions as Found;
use crate::rows::NodeRow;

/// Uses of the pod's disks and claims.
pub(super) struct Restrictions<'p> {
    found: &'p Found,
    disks: SmallVec<[DiskUses<'p>; 2]>,
    /// Number of claims that only one pod may use and that another pod uses, on any node.
    n_claims_in_use: i64,
}

/// Number of volumes of pods on the node that are a disk of the pod.
struct DiskUses<'p> {
    key: &'p DiskKey,
    is_read_only: bool,
    n_readers: i64,
    n_writers: i64,
}

pub(super) fn of<'p>(prepared: &'p Prepared<'_>) -> Option<&'p Found> {
    prepared.volumes().found().map(|found| &found.restrictions)
}

/// Whether the filter applies. A claim without any user is ignored: then kube-scheduler skips the plugin (S-VLR-3).
pub(super) fn applies(prepared: &Prepared<'_>) -> bool {
    of(prepared).is_some_and(|found| found.n_claims_in_use > 0 || !disks(prepared).is_empty())
}

fn disks<'p>(prepared: &'p Prepared<'_>) -> &'p [Disk] {
    prepared.pod().volumes().map_or(&[], |volumes| &volumes.disks)
}

impl<'p> Restrictions<'p> {
    pub(super) fn on(
        prepared: &'p Prepared<'_>,
        found: &'p Found,
        row: NodeRow,
    ) -> Restrictions<'p> {
        let index = &prepared.snapshot().storage.disks;
        let keys = disks(prepared)
            .iter()
            .flat_map(|disk| disk.keys.iter().map(move |key| (key, disk.is_read_only)));
        let uses = keys.map(|(key, is_read_only)| {
            let (n_readers, n_writers) = index.uses(key, row);
            DiskUses { key, is_read_only, n_readers, n_writers }
        });
        Restrictions { found, disks: uses.collect(), n_claims_in_use: found.n_claims_in_use }
    }

    pub(super) fn change(&mut self, pod: &Pod, by: i64) {
        let Some(volumes) = pod.volumes() else { return };
        for disk in &volumes.disks {
            for uses in self.disks.iter_mut().filter(|uses| disk.keys.contains(uses.key)) {
                if disk.is_read_only {
                    uses.n_readers += by;
                } else {
                    uses.n_writers += by;
                }
            }
        }
        // Compares claim names only: upstream ignores namespaces here (S-VLR-6).
        let named = volumes.claims.iter().filter(|claim| !claim.is_ephemeral());
        let shared =
            named.filter(|claim| self.found.exclusive.iter().any(|key| key.name == claim.key.name));
        self.n_claims_in_use += by * shared.count() as i64;
    }

    /// The first reason; disks are checked before claims.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let is_disturbed =
            |uses: &DiskUses<'_>| uses.n_writers > 0 || (!uses.is_read_only && uses.n_readers > 0);
        if self.disks.iter().any(is_disturbed) {
            return Some(Refusal::of(Reason::DiskConflict));
        }
        (self.n_claims_in_use > 0).then(|| Refusal::of(Reason::ReadWriteOncePodConflict))
    }
}
