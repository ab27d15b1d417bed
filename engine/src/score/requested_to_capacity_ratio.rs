//! RequestedToCapacityRatio: scores by a configured function of utilization. Rule: S-RS-7.

use super::add_by_row;
use super::utilization::{percent, utilizations};
use crate::policy::shape::{ShapePoint, interpolate};
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(super) fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
    shape: &[ShapePoint],
) {
    add_by_row(rows, scores, weight, |row| {
        let (mut sum, mut weights) = (0, 0);
        for u in utilizations(prepared, shard, row) {
            let utilization =
                if u.requested > u.allocatable { 100 } else { percent(u.requested, u.allocatable) };
            let score = interpolate(shape, utilization);
            // A resource that scores 0 is left out, including its weight.
            if score > 0 {
                sum += score * u.weight;
                weights += u.weight;
            }
        }
        if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
    });
}
