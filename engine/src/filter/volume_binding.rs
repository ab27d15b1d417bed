//! VolumeBinding: bound claims against their volumes' nodes, other claims against existing volumes and those that could
//! be provisioned. Rules: S-VLB-1 to S-VLB-8, implemented in `prepared/volumes/binding.rs`.

use super::reason::Reason;
use super::{
    Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope, none_resolvable,
};
use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::prepared::volumes::binding::{self, Binding, Refused};
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::VolumeBinding,
    scope: Scope::Request,
    reads: NodePods::Nothing,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable: none_resolvable },
};

/// Refuses or fails the pod as a whole (S-VLB-1, S-VLB-3).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    match binding(prepared).and_then(|binding| binding.refusal.as_ref()) {
        Some(binding::Refusal::Refused(why)) => Err(PreFilterFailure::Refused(why.clone())),
        Some(binding::Refusal::Error(why)) => Err(PreFilterFailure::Error(why.clone())),
        None => Ok(()),
    }
}

/// Whether the filter applies (S-VLB-1).
fn applies(prepared: &Prepared<'_>) -> bool {
    binding(prepared).is_some_and(|binding| !binding.is_empty())
}

fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(binding) = binding(prepared) else { return };
    rows.subtract(&binding.refused(shard, rows).any());
}

/// Every reason of a row, in order (S-VLB-8).
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let rows = [row].into_iter().collect();
    let reasons = by_reason(prepared, shard, &rows);
    let reasons = reasons.iter().filter(|(_, rows)| !rows.is_empty()).map(|(reason, _)| *reason);
    Refusal { code: StatusCode::UnschedulableAndUnresolvable, reasons: reasons.collect() }
}

fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    for (reason, rows) in by_reason(prepared, shard, refused) {
        counts.add(reason, rows.len());
    }
}

fn by_reason(prepared: &Prepared<'_>, shard: &Shard, rows: &RowSet) -> [(Reason, RowSet); 4] {
    let found = binding(prepared).map(|binding| binding.refused(shard, rows));
    let Refused { affinity, no_volume, no_space, missing } = found.unwrap_or_default();
    [
        (Reason::VolumeNodeAffinity, affinity),
        (Reason::NoVolumeToBind, no_volume),
        (Reason::NotEnoughStorage, no_space),
        (Reason::MissingVolume, missing),
    ]
}

fn binding<'a>(prepared: &'a Prepared<'_>) -> Option<&'a Binding<'a>> {
    prepared.volumes().found().map(|found| &found.binding)
}
