//! Scores: how good a feasible node is. `table.rs` lists them; one file a score, named as its plugin.
//!
//! A score adds `weight` times its value to a column; those that are normalised over the feasible nodes (S-SEL-1) get a
//! column of their own first.

pub(crate) mod normalize;

mod image_locality;
mod inter_pod_affinity;
mod least_allocated;
mod ln;
mod most_allocated;
mod node_affinity;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod pod_topology_spread;
mod requested_to_capacity_ratio;
mod table;
mod taint_toleration;
mod utilization;

use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;
use normalize::Normalize;

/// One score plugin.
pub(crate) struct Score {
    pub(crate) plugin: Plugin,
    /// Whether it contributes at all; `false` where PreScore answers `Skip` (S-SEL-1).
    pub(crate) applies: fn(&Prepared<'_>) -> bool,
    pub(crate) raw: Raw,
    pub(crate) normalize: Normalize,
}

/// Where raw scores come from.
#[derive(Copy, Clone)]
pub(crate) enum Raw {
    /// The row and the pod's shape: they stand until the row changes.
    ByRow(ScoreRows),
    /// All feasible rows together, or other pods: they are worked out in every attempt.
    ByCluster(ScoreCluster),
}

/// Adds `weight` times the raw score of every row of the set; other rows may get anything. Answers whether any could have
/// changed.
pub(crate) type ScoreRows = fn(&Prepared<'_>, &Shard, &RowSet, &mut [i32; ROWS], i32) -> bool;

/// Scores the feasible rows of every shard, in the shards' order; `None` where PreScore answers `Skip` after all.
pub(crate) type ScoreCluster = fn(&Prepared<'_>, &[RowSet]) -> Option<ClusterScores>;

/// Raw scores of feasible rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterScores {
    /// A column a shard; rows that are not feasible may hold anything.
    pub(crate) columns: Vec<[i32; ROWS]>,
    /// The feasible rows of each shard that are normalised; `None` for all. The others score 0 (S-TS-8).
    pub(crate) normalized: Option<Vec<RowSet>>,
}

impl Score {
    /// The raw scores of some rows, where they are a matter of rows: see [`ScoreRows`].
    pub(crate) fn add_rows(
        &self,
        prepared: &Prepared<'_>,
        shard: &Shard,
        rows: &RowSet,
        scores: &mut [i32; ROWS],
        weight: i32,
    ) -> bool {
        match self.raw {
            Raw::ByRow(add) => add(prepared, shard, rows, scores, weight),
            Raw::ByCluster(_) => false,
        }
    }
}

/// Adds `weight` times `score` of each row of the set.
fn add_by_row(rows: &RowSet, scores: &mut [i32; ROWS], weight: i32, score: impl Fn(usize) -> i64) {
    for row in rows.iter() {
        // Scores lie in 0..=100 and weights are bounded by the policy.
        scores[row] += weight * score(row) as i32;
    }
}
