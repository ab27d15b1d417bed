//! VolumeRestrictions: disks and claims that cannot be used by two pods. Rules: S-VLR-1 to S-VLR-5.
//! Reads: `DiskIndex`, `ClaimIndex`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::prepared::volumes::restrictions::Restrictions;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::VolumeRestrictions,
    scope: Scope::Request,
    reads: NodePods::ExclusiveVolumes,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

/// Refuses the pod as a whole (S-VLR-1).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    match restrictions(prepared).and_then(|found| found.refusal.as_ref()) {
        Some(why) => Err(PreFilterFailure::Refused(why.clone())),
        None => Ok(()),
    }
}

/// Whether the filter applies (S-VLR-3).
fn applies(prepared: &Prepared<'_>) -> bool {
    restrictions(prepared)
        .is_some_and(|found| !found.occupied.is_empty() || found.n_claims_in_use > 0)
}

/// Clears rows. Cost: one step for each row of the shard that uses one of the pod's disks.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(found) = restrictions(prepared) else { return };
    if found.n_claims_in_use > 0 {
        *rows = RowSet::EMPTY;
        return;
    }
    rows.subtract(&occupied(found, shard));
}

/// The refusal of a row; disks are checked first.
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let is_occupied =
        restrictions(prepared).is_some_and(|found| occupied(found, shard).contains(row));
    let reason = if is_occupied { Reason::DiskConflict } else { Reason::ReadWriteOncePodConflict };
    Refusal::of(reason)
}

fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let Some(found) = restrictions(prepared) else { return };
    let others = refused.without(&occupied(found, shard));
    counts.add(Reason::DiskConflict, refused.without(&others).len());
    counts.add(Reason::ReadWriteOncePodConflict, others.len());
}

/// All refused rows: disks and claims become free when the pods that use them are evicted.
fn resolvable(_: &Prepared<'_>, _: &Shard, refused: &RowSet) -> RowSet {
    *refused
}

/// The rows of the shard with a pod that uses one of the pod's disks (S-VLR-4).
fn occupied(found: &Restrictions, shard: &Shard) -> RowSet {
    let from = found.occupied.partition_point(|row| *row < NodeRow::new(shard.index, 0));
    let here = found.occupied[from..].iter().take_while(|row| row.shard() == shard.index);
    here.map(|row| row.row()).collect()
}

fn restrictions<'a>(prepared: &'a Prepared<'_>) -> Option<&'a Restrictions> {
    prepared.volumes().found().map(|found| &found.restrictions)
}
