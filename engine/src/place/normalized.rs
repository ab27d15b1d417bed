//! Normalized: the scores of a plugin that normalizes over all feasible rows.

use crate::kernel::Kernels;
use crate::place::ranking::Feasible;
use crate::plan::ClusterScore;
use crate::plan::counted::Scoring;
use crate::rows::{ROWS, RowSet};
use crate::score::ClusterScores;
use crate::score::normalize::{Extent, Normalize};

/// Raw scores with their extent.
#[derive(Clone, Debug)]
pub(crate) struct Normalized {
    normalize: Normalize,
    weight: i32,
    scores: ClusterScores,
    extent: Extent,
    kernels: Kernels,
}

impl Normalized {
    /// Scores the feasible rows; `None` where the plugin contributes nothing.
    pub(crate) fn of(
        plan: &Scoring<'_, '_>,
        score: ClusterScore,
        weight: i32,
        feasible: &Feasible,
    ) -> Option<Normalized> {
        let scores = (score.score)(plan, feasible.by_shard())?;
        let rows = scores.normalized.as_deref().unwrap_or(feasible.by_shard());
        debug_assert!(scores.columns.len() >= rows.len(), "a column for each shard");
        let kernels = plan.kernels;
        let (mut lowest, mut highest) = (i32::MAX, i32::MIN);
        for (column, rows) in scores.columns.iter().zip(rows) {
            lowest = lowest.min(kernels.min_of(column, rows));
            highest = highest.max(kernels.max_of(column, rows));
        }
        let extent = if lowest <= highest {
            Extent { lowest: i64::from(lowest), highest: i64::from(highest) }
        } else {
            Extent { lowest: 0, highest: 0 }
        };
        Some(Normalized { normalize: score.normalize, weight, scores, extent, kernels })
    }

    /// The raw and normalized score of a feasible row.
    pub(crate) fn of_row(&self, shard: usize, row: usize) -> (i64, i64) {
        if !self.is_normalized(shard, row) {
            return (0, 0);
        }
        let raw = i64::from(self.scores.columns[shard][row]);
        (raw, self.normalize.apply(raw, self.extent))
    }

    /// Adds the weighted scores of some feasible rows of a shard.
    pub(crate) fn add_to(&self, totals: &mut [i32; ROWS], shard: usize, rows: &RowSet) {
        let all =
            self.scores.normalized.as_ref().is_none_or(|of| rows.without(&of[shard]).is_empty());
        let Extent { lowest, highest } = self.extent;
        let (column, extent) = (&self.scores.columns[shard], (lowest as i32, highest as i32));
        match self.normalize {
            Normalize::Spread if all && highest > 0 && lowest >= 0 => {
                self.kernels.add_spread(totals, column, extent, self.weight);
            }
            Normalize::Range if all && lowest < highest => {
                self.kernels.add_range(totals, column, extent, self.weight);
            }
            _ => rows
                .iter()
                .for_each(|row| totals[row] += self.weight * self.of_row(shard, row).1 as i32),
        }
    }

    fn is_normalized(&self, shard: usize, row: usize) -> bool {
        self.scores.normalized.as_ref().is_none_or(|rows| rows[shard].contains(row))
    }
}
