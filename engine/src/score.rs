//! Scores: how good a feasible node is. `table.rs` lists them; each score has a file named after its plugin.
//!
//! A score adds `weight` times its value to a column; scores that are normalized over the feasible nodes (S-SEL-1)
//! first get a column of their own.

pub(crate) mod normalize;

mod dynamic_resources;
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
pub(crate) mod utilization;
pub(crate) mod volume_binding;

use smallvec::SmallVec;

use crate::census::class::Class;
use crate::model::intern::Symbol;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{ROWS, RowSet};
use crate::snapshot::shard::Shard;
use normalize::Normalize;

/// One score plugin.
pub(crate) struct Score {
    pub(crate) plugin: Plugin,
    /// Whether the score contributes; `false` where PreScore returns `Skip` (S-SEL-1).
    pub(crate) applies: fn(&Prepared<'_>) -> bool,
    pub(crate) raw: Raw,
    pub(crate) normalize: Normalize,
}

/// Source of raw scores.
#[derive(Copy, Clone)]
pub(crate) enum Raw {
    /// The row and the pod's shape: the scores are valid until the row changes.
    Row(ScoreRows),
    /// All feasible rows together, or other pods: the scores are computed in every attempt.
    Cluster(ScoreCluster),
    /// Counts of other pods, by row or by class: the scores are computed in every attempt.
    Counts(ScoreCluster, ScoreClasses),
}

/// Adds `weight` times the raw score of every row of the set; other rows may get any value. Returns whether any score
/// could have changed.
pub(crate) type ScoreRows = fn(&Prepared<'_>, &Shard, &RowSet, &mut [i32; ROWS], i32) -> bool;

/// Scores the feasible rows of every shard, in the shards' order; `None` where PreScore turns out to return `Skip`.
pub(crate) type ScoreCluster = fn(&Prepared<'_>, &[RowSet]) -> Option<ClusterScores>;

/// Scores the classes that have the feasible rows, in their order: `None` for a class that is not normalized and scores 0
/// (S-TS-8). No scores where PreScore turns out to return `Skip`.
pub(crate) type ScoreClasses = fn(&Prepared<'_>, &[Class<'_>]) -> Option<ClassScores>;

/// Raw scores of classes.
pub(crate) type ClassScores = SmallVec<[Option<i32>; 32]>;

/// Raw scores by row, or by what they follow from.
#[derive(Clone, Debug)]
pub(crate) enum Columns {
    /// One column for each shard; rows that are not feasible may hold any value.
    ByRow(Vec<[i32; ROWS]>),
    /// The scores of the domains of a key, at most [`FEW_DOMAINS`](crate::kernel::FEW_DOMAINS). That of rows without the
    /// key comes first.
    ByDomain { key: Symbol, scores: Vec<i32> },
}

/// Raw scores of feasible rows.
#[derive(Clone, Debug)]
pub(crate) struct ClusterScores {
    pub(crate) columns: Columns,
    /// The feasible rows of each shard that are normalized; `None` for all. The others score 0 (S-TS-8).
    pub(crate) normalized: Option<Vec<RowSet>>,
}

impl Score {
    /// Adds the raw scores of some rows, for a score by row: see [`ScoreRows`].
    pub(crate) fn add_rows(
        &self,
        prepared: &Prepared<'_>,
        shard: &Shard,
        rows: &RowSet,
        scores: &mut [i32; ROWS],
        weight: i32,
    ) -> bool {
        match self.raw {
            Raw::Row(add) => add(prepared, shard, rows, scores, weight),
            Raw::Cluster(_) | Raw::Counts(..) => false,
        }
    }
}

/// Adds `weight` times `score` of each row of the set.
fn add_by_row(rows: &RowSet, scores: &mut [i32; ROWS], weight: i32, score: impl Fn(usize) -> i64) {
    for row in rows.iter() {
        // Scores are in 0..=100, and the policy bounds weights.
        scores[row] += weight * score(row) as i32;
    }
}
