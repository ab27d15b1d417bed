//! Normalized: the scores of a plugin that normalizes over all feasible rows.

use crate::domain::DomainId;
use crate::kernel::{FEW_DOMAINS, Kernels, few_domains};
use crate::model::intern::Symbol;
use crate::place::ranking::Feasible;
use crate::plan::ClusterScore;
use crate::plan::counted::Scoring;
use crate::rows::{ROWS, RowSet};
use crate::score::normalize::{Extent, Normalize};
use crate::score::{ClusterScores, Columns};
use crate::snapshot::Snapshot;

/// Raw scores with their extent.
#[derive(Clone, Debug)]
pub(crate) struct Normalized<'a> {
    normalize: Normalize,
    weight: i32,
    scores: ClusterScores,
    extent: Extent,
    /// The weighted scores by domain, where the raw ones are.
    weighted: Option<[i32; FEW_DOMAINS]>,
    snapshot: &'a Snapshot,
    kernels: Kernels,
}

impl<'a> Normalized<'a> {
    /// Scores the feasible rows; `None` where the plugin contributes nothing.
    pub(crate) fn of(
        plan: &Scoring<'_, 'a>,
        score: ClusterScore,
        weight: i32,
        feasible: &Feasible,
    ) -> Option<Normalized<'a>> {
        let scores = (score.score)(plan, feasible.by_shard())?;
        let rows = scores.normalized.as_deref().unwrap_or(feasible.by_shard());
        let (kernels, snapshot, normalize) = (plan.kernels, plan.snapshot(), score.normalize);
        let (lowest, highest) = match &scores.columns {
            Columns::ByRow(columns) => of_rows(columns, rows, kernels),
            Columns::ByDomain { key, scores } => of_domains(*key, scores, rows, snapshot),
        };
        let extent = if lowest <= highest {
            Extent { lowest: i64::from(lowest), highest: i64::from(highest) }
        } else {
            Extent { lowest: 0, highest: 0 }
        };
        let weighted = match &scores.columns {
            Columns::ByRow(_) => None,
            Columns::ByDomain { scores, .. } => {
                // Domains without a feasible row may have any score.
                let within = |score: &i32| (*score).clamp(lowest, highest.max(lowest));
                let score = |raw: &i32| normalize.apply(i64::from(within(raw)), extent) as i32;
                few_domains(&scores.iter().map(|raw| weight * score(raw)).collect::<Vec<_>>())
            }
        };
        Some(Normalized { normalize, weight, scores, extent, weighted, snapshot, kernels })
    }

    /// The raw and normalized score of a feasible row.
    pub(crate) fn of_row(&self, shard: usize, row: usize) -> (i64, i64) {
        if !self.is_normalized(shard, row) {
            return (0, 0);
        }
        let raw = i64::from(match &self.scores.columns {
            Columns::ByRow(columns) => columns[shard][row],
            Columns::ByDomain { key, scores } => {
                let label = self.snapshot.shards[shard].nodes.labels.get(key);
                scores[label.map_or(0, |label| label.domains[row].index())]
            }
        });
        (raw, self.normalize.apply(raw, self.extent))
    }

    /// Adds the weighted scores of some feasible rows of a shard.
    pub(crate) fn add_to(&self, totals: &mut [i32; ROWS], shard: usize, rows: &RowSet) {
        let all =
            self.scores.normalized.as_ref().is_none_or(|of| rows.without(&of[shard]).is_empty());
        let Extent { lowest, highest } = self.extent;
        let extent = (lowest as i32, highest as i32);
        match (&self.scores.columns, &self.weighted, self.normalize) {
            (Columns::ByDomain { key, .. }, Some(weighted), _) if all => {
                match self.snapshot.shards[shard].nodes.labels.get(key) {
                    Some(label) => self.kernels.add_weights(totals, &label.domains.0, weighted),
                    None => rows.iter().for_each(|row| totals[row] += weighted[0]),
                }
            }
            (Columns::ByRow(columns), _, Normalize::Spread)
                if all && highest > 0 && lowest >= 0 =>
            {
                self.kernels.add_spread(totals, &columns[shard], extent, self.weight);
            }
            (Columns::ByRow(columns), _, Normalize::Range) if all && lowest < highest => {
                self.kernels.add_range(totals, &columns[shard], extent, self.weight);
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

/// The lowest and the highest score of some rows; the lowest is above the highest if there are none.
fn of_rows(columns: &[[i32; ROWS]], rows: &[RowSet], kernels: Kernels) -> (i32, i32) {
    debug_assert!(columns.len() >= rows.len(), "a column for each shard");
    let (mut lowest, mut highest) = (i32::MAX, i32::MIN);
    for (column, rows) in columns.iter().zip(rows) {
        lowest = lowest.min(kernels.min_of(column, rows));
        highest = highest.max(kernels.max_of(column, rows));
    }
    (lowest, highest)
}

/// The lowest and the highest score among the domains that have some of these rows; the lowest is above the highest if
/// there are no rows.
fn of_domains(key: Symbol, scores: &[i32], rows: &[RowSet], snapshot: &Snapshot) -> (i32, i32) {
    let (mut lowest, mut highest) = (i32::MAX, i32::MIN);
    let mut see = |domain: DomainId| {
        let score = scores[domain.index()];
        (lowest, highest) = (lowest.min(score), highest.max(score));
    };
    for (rows, shard) in rows.iter().zip(&snapshot.shards) {
        let Some(label) = shard.nodes.labels.get(&key) else {
            if !rows.is_empty() {
                see(DomainId::NONE);
            }
            continue;
        };
        label.for_each_domain(rows, |domain, _| see(domain));
        if !rows.without(&label.rows).is_empty() {
            see(DomainId::NONE);
        }
    }
    (lowest, highest)
}
