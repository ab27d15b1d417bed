//! Scores: how good a feasible node is. SCORES is the table; one file a score, named as its plugin.
//!
//! A score adds `weight` times its value to a column; those that are normalised over the feasible nodes (S-SEL-1) get a
//! column of their own first.

pub(crate) mod normalize;

mod image_locality;
mod least_allocated;
mod most_allocated;
mod node_affinity;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod requested_to_capacity_ratio;
mod taint_toleration;
mod utilization;

use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::snapshot::ROWS;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;
use normalize::Normalize;

/// One score plugin.
pub(crate) struct Score {
    pub(crate) plugin: Plugin,
    /// Whether it contributes at all; `false` where PreScore answers `Skip` (S-SEL-1).
    pub(crate) applies: fn(&Prepared<'_>) -> bool,
    /// Adds `weight` times the raw score of every row of the set; other rows may get anything. Answers whether any
    /// could have changed.
    pub(crate) add: fn(&Prepared<'_>, &Shard, &RowSet, &mut [i32; ROWS], i32) -> bool,
    pub(crate) normalize: Normalize,
}

/// Every score that is built.
pub(crate) const SCORES: [Score; 5] = [
    taint_toleration::SCORE,
    node_affinity::SCORE,
    node_resources_fit::SCORE,
    node_resources_balanced_allocation::SCORE,
    image_locality::SCORE,
];

impl Score {
    /// The score of a plugin, if it is built and scores.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Score> {
        const { &SCORES }.iter().find(|score| score.plugin == plugin)
    }
}

/// Adds `weight` times `score` of each row of the set.
fn add_by_row(rows: &RowSet, scores: &mut [i32; ROWS], weight: i32, score: impl Fn(usize) -> i64) {
    for row in rows.iter() {
        // Scores lie in 0..=100 and weights are bounded by the policy.
        scores[row] += weight * score(row) as i32;
    }
}
