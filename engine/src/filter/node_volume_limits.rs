//! NodeVolumeLimits: how many volumes each driver can attach to a node, and since v1.37 whether a driver is there at all.
//! Rules: S-VLL-1 to S-VLL-5, S-137-20 to S-137-27. Reads: `InUse`, `Installed`.
//!
//! Before v1.37 missing drivers do not matter (S-VLL-6). A volume that cannot be identified fails the attempt before
//! filtering, while kube-scheduler fails it at the first node that reaches this filter.

use super::reason::Reason;
use super::{Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope};
use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::prepared::volumes::limits::{DriverDemand, Limits};
use crate::rows::{FEW, NodeRow, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeVolumeLimits,
    scope: Scope::Request,
    reads: NodePods::AttachedVolumes,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

/// Fails the attempt for a volume that cannot be identified, unless VolumeBinding, which checks the same claims,
/// refuses the pod with a more precise message.
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    let Some(found) = prepared.volumes().found() else { return Ok(()) };
    let is_refused = found.binding.refusal.is_some()
        && prepared.policy().spec().pre_filter.contains(&Plugin::VolumeBinding);
    match &found.limits.error {
        Some(why) if !is_refused => Err(PreFilterFailure::Error(why.clone())),
        _ => Ok(()),
    }
}

/// Whether the filter applies (S-VLL-1).
fn applies(prepared: &Prepared<'_>) -> bool {
    limits(prepared).is_some_and(|limits| limits.refusal.is_some() || !limits.demands.is_empty())
}

/// Clears rows. Cost: one pass over two columns for each driver, and one step for each row that shares a volume with
/// the pod.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(limits) = limits(prepared) else { return };
    if limits.refusal.is_some() {
        *rows = RowSet::EMPTY;
        return;
    }
    let storage = &prepared.snapshot().storage;
    for needed in &limits.needs {
        rows.subtract(&needed.lacking(storage, shard.index, rows));
    }
    for demand in &limits.demands {
        rows.subtract(&full(prepared, demand, shard, rows));
    }
}

fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    Refusal::of(reason(prepared, NodeRow::new(shard.index, row)))
}

fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    for row in refused.iter() {
        counts.add(reason(prepared, NodeRow::new(shard.index, row)), 1);
    }
}

fn resolvable(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet) -> RowSet {
    let is_resolvable = |row: &usize| {
        let reason = reason(prepared, NodeRow::new(shard.index, *row));
        reason.code() == StatusCode::Unschedulable
    };
    refused.iter().filter(is_resolvable).collect()
}

/// Why a refused row is refused: a claim that cannot be looked up, else a missing driver, else a limit (S-137-25).
fn reason(prepared: &Prepared<'_>, row: NodeRow) -> Reason {
    let Some(limits) = limits(prepared) else { return Reason::MaxVolumeCount };
    if let Some(why) = &limits.refusal {
        return Reason::ClaimLookup(prepared.text(why));
    }
    match limits.lacked(&prepared.snapshot().storage, row) {
        Some(driver) => Reason::MissingDriver(driver),
        None => Reason::MaxVolumeCount,
    }
}

/// The rows among `rows` where the driver could not attach the pod's additional volumes (S-VLL-5).
fn full(prepared: &Prepared<'_>, demand: &DriverDemand, shard: &Shard, rows: &RowSet) -> RowSet {
    let Some(counts) = prepared.snapshot().storage.in_use.counts(demand.driver, shard.index) else {
        return RowSet::EMPTY;
    };
    let mut limited = *rows;
    limited.intersect(&counts.limited);
    let exceeds = |row: usize, n_new: i32| {
        i64::from(counts.in_use[row]) + i64::from(n_new) > i64::from(counts.limit[row])
    };
    let mut full: RowSet = if limited.len() < FEW {
        limited.iter().filter(|row| exceeds(*row, demand.n_volumes)).collect()
    } else {
        let mut full = RowSet::default();
        for (word, bits) in full.0.iter_mut().enumerate() {
            for bit in 0..64 {
                *bits |= u64::from(exceeds(word * 64 + bit, demand.n_volumes)) << bit;
            }
        }
        full.intersect(&limited);
        full
    };
    // Volumes that pods on the row use already are not additional.
    let from = demand.shared.partition_point(|(row, _)| *row < NodeRow::new(shard.index, 0));
    for (row, n_shared) in &demand.shared[from..] {
        if row.shard() != shard.index {
            break;
        }
        let n_new = demand.n_volumes - n_shared;
        if full.contains(row.row()) && (n_new == 0 || !exceeds(row.row(), n_new)) {
            full.remove(row.row());
        }
    }
    full
}

fn limits<'a>(prepared: &'a Prepared<'_>) -> Option<&'a Limits> {
    prepared.volumes().found().map(|found| &found.limits)
}
