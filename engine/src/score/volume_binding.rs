//! VolumeBinding: nodes by the storage that would be left in use, since v1.37. Rules: S-137-1 to S-137-14,
//! S-137-16, S-137-17.
//!
//! Before v1.37 the plugin has no score (S-VS-1).

use super::normalize::Normalize;
use super::{ClusterScores, Columns, Raw, Score};
use crate::plugin::Plugin;
use crate::policy::shape::{ShapePoint, interpolate};
use crate::prepared::Prepared;
use crate::prepared::volumes::binding::Binding;
use crate::prepared::volumes::storage_use::ClassUse;
use crate::rows::{ROWS, RowSet};

/// The score of pods with claims that wait for their first consumer. Other pods may take the volumes, so it is computed
/// in every attempt.
pub(crate) const SCORE: Score = Score {
    plugin: Plugin::VolumeBinding,
    applies: |prepared| scores_storage(prepared) && delayed(prepared).is_some(),
    raw: Raw::Cluster(score),
    normalize: Normalize::No,
};

/// The score of all other pods, which is 0 on every node: PreScore never skips (S-137-2).
pub(crate) const ZERO: Score = Score {
    plugin: Plugin::VolumeBinding,
    applies: |prepared| scores_storage(prepared) && delayed(prepared).is_none(),
    raw: Raw::Row(|_, _, _, _, _| false),
    normalize: Normalize::No,
};

fn scores_storage(prepared: &Prepared<'_>) -> bool {
    prepared.policy().spec().kubernetes_version.scores_storage()
}

/// The bindings of a pod with claims to be bound, if VolumeBinding filters.
pub(crate) fn delayed<'a>(prepared: &'a Prepared<'_>) -> Option<&'a Binding<'a>> {
    let found = prepared.volumes().found().filter(|found| found.binds)?;
    Some(&found.binding).filter(|binding| binding.has_delayed())
}

fn score(prepared: &Prepared<'_>, feasible: &[RowSet]) -> Option<ClusterScores> {
    let binding = delayed(prepared)?;
    let shape = &prepared.policy().spec().volume_binding.shape;
    let mut columns = vec![[0; ROWS]; feasible.len()];
    let shards = columns.iter_mut().zip(feasible).zip(&prepared.snapshot().shards);
    for ((column, rows), shard) in shards.filter(|((_, rows), _)| !rows.is_empty()) {
        binding.storage_uses(shard, rows, |row, uses| {
            // At most 100: the shape's scores are at most 10.
            column[row] = mean(uses, shape) as i32;
        });
    }
    Some(ClusterScores { columns: Columns::ByRow(columns), normalized: None })
}

/// The score of a row with these uses: the mean of the classes, rounded half up (S-137-12).
fn mean(uses: &[ClassUse], shape: &[ShapePoint]) -> i64 {
    let sum: i64 = uses.iter().map(|used| interpolate(shape, used.utilization())).sum();
    let n = uses.len() as i64;
    if n == 0 { 0 } else { (2 * sum + n) / (2 * n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Symbol;
    use crate::prepared::volumes::storage_use::Uses;

    fn check(uses: &[(i64, i64)], shape: &[(i64, i64)], expected: i64) {
        let uses: Uses = uses
            .iter()
            .map(|&(requested, capacity)| ClassUse { class: Symbol::EMPTY, requested, capacity })
            .collect();
        let point = |&(utilization, score)| ShapePoint { utilization, score };
        let shape: Vec<_> = shape.iter().map(point).collect();
        assert_eq!(mean(&uses, &shape), expected, "{uses:?}");
    }

    /// The worked examples of the requirements, and the bounds of S-137-11.
    #[test]
    fn worked_examples() {
        let falling = [(0, 10), (100, 0)];
        check(&[(25, 100)], &falling, 75);
        check(&[(60, 100)], &falling, 40);
        check(&[(30, 20)], &falling, 0);
        check(&[(25, 100), (5, 10)], &falling, 63);
        check(&[(4, 10)], &falling, 60);
        check(&[], &falling, 0);
        check(&[(1, 3)], &[(0, 0), (100, 10)], 33);
        check(&[(0, 0)], &[(0, 0), (100, 10)], 100);
        check(&[(i64::MAX, i64::MAX)], &[(0, 0), (100, 10)], 100);
    }
}
