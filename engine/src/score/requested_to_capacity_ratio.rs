//! RequestedToCapacityRatio: scores by a configured function of utilization. Rule: S-RS-7.

use super::add_by_row;
use super::utilization::{percent, utilizations};
use crate::policy::ShapePoint;
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

/// The piecewise linear function through the points, whose scores count tenfold; integer arithmetic, truncating.
fn interpolate(shape: &[ShapePoint], utilization: i64) -> i64 {
    let mut previous: Option<&ShapePoint> = None;
    for point in shape {
        if utilization <= point.utilization {
            let Some(before) = previous else {
                return 10 * point.score;
            };
            let rise = 10 * (point.score - before.score);
            let run = point.utilization - before.utilization;
            return 10 * before.score + rise * (utilization - before.utilization) / run;
        }
        previous = Some(point);
    }
    previous.map_or(0, |last| 10 * last.score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(i64, i64)], utilization: i64, expected: i64) {
        let shape: Vec<_> =
            points.iter().map(|&(utilization, score)| ShapePoint { utilization, score }).collect();
        assert_eq!(interpolate(&shape, utilization), expected, "{points:?} at {utilization}");
    }

    /// Values of the worked examples under S-RS-9.
    #[test]
    fn worked_examples() {
        let rising = [(0, 0), (100, 10)];
        check(&rising, 37, 37);
        check(&rising, 25, 25);
        check(&rising, 0, 0);
        let falling = [(0, 10), (50, 5), (100, 0)];
        check(&falling, 37, 63);
        check(&falling, 25, 75);
        check(&falling, 100, 0);
        check(&[(20, 3), (40, 7)], 10, 30);
        check(&[(20, 3), (40, 7)], 90, 70);
    }
}
