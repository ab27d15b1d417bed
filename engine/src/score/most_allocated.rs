//! MostAllocated: prefers full nodes. Rule: S-RS-6.

use super::add_by_row;
use super::utilization::{Utilization, input, is_exact, percent, utilizations, weighted_mean};
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(super) fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) {
    if !is_exact(prepared, shard, rows) {
        return add_by_row(rows, scores, weight, |row| {
            weighted_mean(utilizations(prepared, shard, row), score)
        });
    }
    prepared.kernels.add_most_allocated(scores, &input(prepared, shard), weight);
}

fn score(u: Utilization) -> i64 {
    percent(u.requested.min(u.allocatable), u.allocatable)
}
