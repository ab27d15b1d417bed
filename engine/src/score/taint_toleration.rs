//! TaintToleration's score: untolerated `PreferNoSchedule` taints. Rules: S-TT-1, S-TT-2.

use super::normalize::Normalize;
use super::{Raw, Score};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const SCORE: Score = Score {
    plugin: Plugin::TaintToleration,
    applies: |_| true,
    raw: Raw::Row(add),
    normalize: Normalize::Reverse,
};

/// Counts, for each row, the soft taints that the pod does not tolerate.
///
/// Cost: one step for each such taint on a row of the set.
fn add(
    prepared: &Prepared<'_>,
    shard: &Shard,
    rows: &RowSet,
    scores: &mut [i32; ROWS],
    weight: i32,
) -> bool {
    let mut any = false;
    for (taint, holders) in &shard.nodes.soft_taints {
        let mut counted = *holders;
        counted.intersect(rows);
        if counted.is_empty() || prepared.shape().tolerations.tolerates_softly(taint) {
            continue;
        }
        any = true;
        for row in counted.iter() {
            scores[row] += weight;
        }
    }
    any
}
