//! ShardEvaluation: which rows of one shard are feasible, how they score, and which are the best.
//!
//! Where few rows of the shard changed since, the work is on those rows only. Scores that are normalized over all
//! feasible nodes keep their raw columns.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::kernel::Kernels;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::rows::{FEW, ROWS, RowSet};
use crate::score::normalize::Extent;
use crate::snapshot::shard::Shard;

/// The evaluation of one shard.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardEvaluation {
    /// The shard's version; 0, which no shard has, before the first evaluation.
    pub(super) version: u64,
    pub(super) feasible: RowSet,
    pub(super) n_feasible: u32,
    /// Whether the scores belong to `version`, except for `unscored`.
    pub(super) is_scored: bool,
    /// Rows that changed since they were scored.
    unscored: RowSet,
    /// Rows whose totals may have changed since the shard was ranked.
    pub(super) unranked: RowSet,
    /// Scores to be normalized, before normalization.
    pub(super) raw: SmallVec<[RawScores; 2]>,
}

/// One plugin's raw scores; no column where every row has 0.
#[derive(Clone, Debug, Default)]
pub(super) struct RawScores {
    pub(super) column: Option<Box<[i32; ROWS]>>,
    pub(super) max: i32,
}

/// Highest raw score of each normalised plugin over the feasible nodes.
pub(super) type Maxima = SmallVec<[i32; 2]>;

impl ShardEvaluation {
    pub(super) fn forget_scores(&mut self) {
        self.is_scored = false;
        self.raw.clear();
    }

    /// Updates the feasible rows to the shard's version.
    pub(super) fn filter(&mut self, plan: &Plan<'_>, shard: &Shard, is_same_lineage: bool) {
        let mut candidates = plan.candidates(shard);
        match self.changed(plan, shard, is_same_lineage) {
            Some(changed) => {
                candidates.intersect(&changed);
                self.feasible.subtract(&changed);
                self.feasible.union(&passing_row(plan, shard, candidates));
                self.unscored.union(&changed);
                self.is_scored &= self.unscored.len() < FEW;
            }
            None => {
                self.feasible = passing_row(plan, shard, candidates);
                self.is_scored = false;
            }
        }
        self.n_feasible = self.feasible.len();
        // No shard has version 0: where a filter failed on a row, the shard is filtered again each time.
        let has_failed = !plan.devices().failed_rows(shard).is_empty();
        self.version = if has_failed { 0 } else { shard.version };
    }

    /// The rows that changed since the last evaluation, if they are known and few.
    fn changed(&self, plan: &Plan<'_>, shard: &Shard, is_same_lineage: bool) -> Option<RowSet> {
        if !is_same_lineage || self.version == 0 || shard.version < self.version {
            return None;
        }
        let changed = shard.rows_above(self.version, plan.kernels);
        (changed.len() < FEW).then_some(changed)
    }

    /// Whether some feasible rows are not scored.
    pub(super) fn is_to_be_scored(&self) -> bool {
        self.n_feasible > 0 && (!self.is_scored || !self.unscored.is_empty())
    }

    /// Updates the scores of feasible rows to the shard's version.
    pub(super) fn score(&mut self, plan: &Plan<'_>, shard: &Shard, plain: &mut [i32; ROWS]) {
        let mut rows = self.feasible;
        if self.is_scored {
            rows.intersect(&self.unscored);
            self.unscored.iter().for_each(|row| plain[row] = 0);
            self.unranked.union(&self.unscored);
        } else {
            *plain = [0; ROWS];
            self.unranked = RowSet::FULL;
            self.raw = SmallVec::from_elem(RawScores::default(), plan.normalized_scores().len());
        }
        for (score, weight) in plan.plain_scores() {
            score.add_rows(plan, shard, &rows, plain, *weight);
        }
        if !plan.normalized_scores().is_empty() {
            self.score_raw(plan, shard, &rows);
        }
        self.unscored = RowSet::EMPTY;
        self.is_scored = true;
    }

    /// Updates the raw scores of some rows.
    fn score_raw(&mut self, plan: &Plan<'_>, shard: &Shard, rows: &RowSet) {
        let mut scratch = [0; ROWS];
        for ((score, _), raw) in plan.normalized_scores().iter().zip(&mut self.raw) {
            raw.clear(&self.unscored);
            if score.add_rows(plan, shard, rows, &mut scratch, 1) {
                raw.take(rows, &mut scratch);
            }
            raw.max = raw.max_of(plan.kernels, &self.feasible);
        }
    }

    /// The highest total under these maxima and the rows that have it, where `known` is what they were under the same
    /// maxima before some rows changed; `i32::MIN` if no row is feasible.
    pub(super) fn rank(
        &mut self,
        plan: &Plan<'_>,
        plain: &[i32; ROWS],
        maxima: &Maxima,
        known: (i32, RowSet),
    ) -> (i32, RowSet) {
        let changed = std::mem::take(&mut self.unranked);
        if self.n_feasible == 0 {
            return (i32::MIN, RowSet::EMPTY);
        }
        let known = (known.0, known.1.without(&changed));
        let totals = Totals { plan, plain, raw: &self.raw, maxima };
        if changed.len() >= FEW || known.1.is_empty() {
            return totals.of_shard().best(&self.feasible);
        }
        let mut came = self.feasible;
        came.intersect(&changed);
        totals.best_again(known, &came, &self.feasible)
    }
}

impl RawScores {
    /// The highest score of some rows; no score is below 0.
    pub(super) fn max_of(&self, kernels: Kernels, rows: &RowSet) -> i32 {
        self.column.as_ref().map_or(0, |column| kernels.max_of(column, rows).max(0))
    }

    /// Clears the scores of some rows.
    fn clear(&mut self, rows: &RowSet) {
        if let Some(column) = &mut self.column {
            rows.iter().for_each(|row| column[row] = 0);
        }
    }

    /// Moves the scores of some rows here; `scratch` holds only these, and is 0 afterwards.
    fn take(&mut self, rows: &RowSet, scratch: &mut [i32; ROWS]) {
        let Some(column) = &mut self.column else {
            self.column = Some(Box::new(std::mem::replace(scratch, [0; ROWS])));
            return;
        };
        for row in rows.iter() {
            column[row] = std::mem::take(&mut scratch[row]);
        }
    }
}

/// The totals of a shard's rows under given maxima.
#[derive(Copy, Clone)]
pub(super) struct Totals<'s, 'p, 'a> {
    pub(super) plan: &'p Plan<'a>,
    pub(super) plain: &'s [i32; ROWS],
    pub(super) raw: &'s [RawScores],
    pub(super) maxima: &'s Maxima,
}

/// The totals of all rows of a shard; those of rows without a place among the highest raw scores are undefined.
pub(super) struct ShardTotals<'s> {
    of_rows: Cow<'s, [i32; ROWS]>,
    /// To be added to each of them.
    constant: i32,
    kernels: Kernels,
}

impl<'s> Totals<'s, '_, '_> {
    /// Computes all of them.
    pub(super) fn of_shard(&self) -> ShardTotals<'s> {
        let mut of_rows = Cow::Borrowed(self.plain);
        let constant = add_raw(self.plan, &mut of_rows, self.raw, self.maxima);
        ShardTotals { of_rows, constant, kernels: self.plan.kernels }
    }

    /// The highest total of some rows, and the rows that have it; `known` is what it was before some rows changed, without
    /// these but for at least one row, and `came` are those of them that are among the rows now.
    pub(super) fn best_again(
        &self,
        known: (i32, RowSet),
        came: &RowSet,
        rows: &RowSet,
    ) -> (i32, RowSet) {
        let (mut highest, mut best) = known;
        for row in came.iter() {
            let total = self.plain[row] + normalized(self.plan, row, self.raw, self.maxima);
            if total > highest {
                (highest, best) = (total, RowSet::EMPTY);
            }
            if total == highest {
                best.insert(row);
            }
        }
        debug_assert!(
            !self.are_defined(rows) || (highest, best) == self.of_shard().best(rows),
            "row by row and as a whole"
        );
        (highest, best)
    }

    /// Whether no raw score of the rows is above the highest one.
    fn are_defined(&self, rows: &RowSet) -> bool {
        let mut raw = self.raw.iter().zip(self.maxima);
        raw.all(|(raw, max)| raw.max_of(self.plan.kernels, rows) <= *max)
    }
}

impl ShardTotals<'_> {
    /// The highest total of some rows, at least one, and the rows that have it.
    pub(super) fn best(&self, rows: &RowSet) -> (i32, RowSet) {
        let highest = self.kernels.max_of(&self.of_rows, rows);
        (highest + self.constant, self.kernels.rows_equal(&self.of_rows, rows, highest))
    }
}

/// The weighted raw scores of one row under the given maxima.
fn normalized(plan: &Plan<'_>, row: usize, raw: &[RawScores], maxima: &Maxima) -> i32 {
    let scores = plan.normalized_scores().iter().zip(raw).zip(maxima);
    let weighted = scores.map(|(((score, weight), raw), max)| {
        let extent = Extent { lowest: 0, highest: i64::from(*max) };
        let raw = raw.column.as_ref().map_or(0, |column| column[row].min(*max));
        weight * score.normalize.apply(i64::from(raw), extent) as i32
    });
    weighted.sum()
}

/// Adds the weighted scores of raw scores under the given maxima; returns a constant to be added to every row.
pub(super) fn add_raw(
    plan: &Plan<'_>,
    totals: &mut Cow<'_, [i32; ROWS]>,
    raw: &[RawScores],
    maxima: &Maxima,
) -> i32 {
    let mut constant = 0;
    for (((score, weight), raw), max) in plan.normalized_scores().iter().zip(raw).zip(maxima) {
        let extent = Extent { lowest: 0, highest: i64::from(*max) };
        let weighted = |raw: i32| weight * score.normalize.apply(i64::from(raw), extent) as i32;
        match &raw.column {
            Some(column) if *max > 0 => add_weighted(totals.to_mut(), column, *max, weighted),
            _ => constant += weighted(0),
        }
    }
    constant
}

/// Adds `weighted` of every raw score, using a table where the scores are small, as nearly all are.
fn add_weighted(
    totals: &mut [i32; ROWS],
    column: &[i32; ROWS],
    max: i32,
    weighted: impl Fn(i32) -> i32,
) {
    const TABLE: usize = 64;
    if (max as usize) < TABLE {
        let mut table = [weighted(max); TABLE];
        table.iter_mut().zip(0..max).for_each(|(score, raw)| *score = weighted(raw));
        // Other rows than those that the highest score is of may hold any value from 0 on.
        for (total, raw) in totals.iter_mut().zip(column) {
            *total += table[*raw as usize % TABLE];
        }
    } else {
        for (total, raw) in totals.iter_mut().zip(column) {
            *total += weighted((*raw).min(max));
        }
    }
}

/// The rows among `rows`, all of which hold a node, that pass the filters whose verdicts are valid until a row changes.
///
/// Rows on which a filter failed stay: later filters do not see them.
fn passing_row(plan: &Plan<'_>, shard: &Shard, candidates: RowSet) -> RowSet {
    let mut rows = candidates;
    for filter in plan.row_filters() {
        if rows.is_empty() {
            break;
        }
        (filter.run)(plan, shard, &mut rows);
    }
    let mut failed = plan.devices().failed_rows(shard);
    failed.intersect(&candidates);
    rows.union(&failed);
    rows
}

/// The rows among `rows` that pass the filters that run in every attempt.
pub(super) fn passing_request(plan: &Filtering<'_, '_>, shard: &Shard, mut rows: RowSet) -> RowSet {
    for filter in plan.filters().iter().filter(|filter| !filter.scope.is_row()) {
        if rows.is_empty() {
            break;
        }
        (filter.run)(plan, shard, &mut rows);
    }
    rows
}
