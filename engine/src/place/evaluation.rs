//! Evaluation: which rows are feasible and how they score, shard by shard, kept with the shard versions it was made
//! from.
//!
//! Evaluating again visits every shard but works only on changed ones, and where few rows of a shard changed, on those
//! rows only. Scores that are normalized over all feasible nodes keep their raw columns; a shard is ranked again only
//! when it or the highest raw score changes.

use std::borrow::Cow;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::normalized::Normalized;
use super::promised::refused_with_promised;
use super::ranking::{Feasible, Ranking};
use crate::census::Census;
use crate::error::EngineError;
use crate::filter::Scope;
use crate::plan::Plan;
use crate::plan::counted::{Filtering, Scoring};
use crate::plugin::Plugin;
use crate::rows::{FEW, NodeRow, ROWS, RowSet};
use crate::score::normalize::Extent;
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// The evaluation of one shape under one policy.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    shards: Vec<ShardEvaluation>,
    /// For each shard the weighted sum of the scores that are not normalised.
    plain: Vec<[i32; ROWS]>,
    /// The history of the versions: within one history, a later shard differs from an earlier one exactly in the rows
    /// with newer versions.
    lineage: u64,
    /// Version of the devices that do not belong to one node; 0 for pods that need none.
    devices: u64,
    /// Number of nodes of the scored snapshot: ImageLocality divides by it (S-IL-2).
    n_nodes: usize,
    /// Counts of other pods.
    census: Census,
    /// Highest raw scores under which shards were last ranked one by one.
    maxima: Maxima,
    /// The best rows of the last ranking.
    best: Ranking,
}

#[derive(Clone, Debug, Default)]
struct ShardEvaluation {
    /// The shard's version; 0, which no shard has, before the first evaluation.
    version: u64,
    feasible: RowSet,
    n_feasible: u32,
    /// Whether the scores belong to `version`, except for `unscored`.
    is_scored: bool,
    /// Rows that changed since they were scored.
    unscored: RowSet,
    /// Scores to be normalized, before normalization.
    raw: SmallVec<[RawScores; 2]>,
    /// The ranking under the evaluation's highest raw scores.
    ranking: Option<ShardRanking>,
}

/// One plugin's raw scores; no column where every row has 0.
#[derive(Clone, Debug, Default)]
struct RawScores {
    column: Option<Box<[i32; ROWS]>>,
    max: i32,
}

/// Highest raw score of each normalised plugin over the feasible nodes.
type Maxima = SmallVec<[i32; 2]>;

#[derive(Clone, Debug)]
struct ShardRanking {
    best: i32,
    rows: RowSet,
}

impl AsMut<Census> for Evaluation {
    fn as_mut(&mut self) -> &mut Census {
        &mut self.census
    }
}

impl Evaluation {
    /// Filters every changed shard.
    pub(crate) fn filter(&mut self, plan: &Plan<'_>) {
        let Snapshot { shards, lineage, .. } = plan.snapshot();
        let devices = plan.devices_version();
        if std::mem::replace(&mut self.devices, devices) != devices {
            self.shards.clear();
        }
        let is_same_lineage = std::mem::replace(&mut self.lineage, *lineage) == *lineage;
        self.shards.resize_with(shards.len(), ShardEvaluation::default);
        let changed = self.shards.iter_mut().zip(shards);
        let changed = changed.filter(|(evaluation, shard)| evaluation.version != shard.version);
        on_each(changed.collect(), |(evaluation, shard)| {
            evaluation.filter(plan, shard, is_same_lineage);
        });
        if self.n_nodes != plan.n_nodes() {
            self.n_nodes = plan.n_nodes();
            self.shards.iter_mut().for_each(|shard| shard.is_scored = false);
        }
    }

    /// An evaluation of nothing, like the default one, in the memory of this one.
    pub(crate) fn emptied(self) -> Evaluation {
        let Evaluation { mut shards, plain, .. } = self;
        shards.iter_mut().for_each(|shard| *shard = ShardEvaluation::default());
        Evaluation { shards, plain, ..Evaluation::default() }
    }

    /// A copy for a fork of the plan's snapshot, evaluated up to there: everything that the fork changes later has
    /// newer versions.
    pub(crate) fn fork(&mut self, base: &mut Plan<'_>, lineage: u64) -> Evaluation {
        self.filter(base);
        self.score(base);
        base.scoring(self, |_, _| ());
        let Evaluation { shards, plain, maxima, .. } = self;
        Evaluation {
            shards: shards.clone(),
            plain: plain.clone(),
            lineage,
            devices: self.devices,
            n_nodes: self.n_nodes,
            census: self.census.fork(lineage),
            maxima: maxima.clone(),
            // The fork's best rows soon differ from those that the hashes are cached of.
            best: Ranking::default(),
        }
    }

    /// A copy for a fork that only filters: state for scores is computed when the fork first scores.
    pub(crate) fn fork_filtered(&mut self, base: &mut Plan<'_>, lineage: u64) -> Evaluation {
        self.filter(base);
        let mut census = Census::default();
        if base.demand().filters() {
            base.filtering(self, |_, _| ());
            census = self.census.fork(lineage);
        }
        let Evaluation { shards, n_nodes, .. } = self;
        let mut shards = shards.clone();
        shards.iter_mut().for_each(ShardEvaluation::forget_scores);
        Evaluation { shards, n_nodes: *n_nodes, lineage, census, ..Evaluation::default() }
    }

    /// The rows that pass every filter, after [`Evaluation::filter`]; `None` if there are none. An error of a filter on
    /// any of them ends the attempt (S-CYC-10).
    pub(crate) fn feasible(
        &self,
        plan: &Filtering<'_, '_>,
    ) -> Result<Option<Feasible>, EngineError> {
        let shards = self.shards.iter().zip(&plan.snapshot().shards);
        let feasible = shards.map(|(known, shard)| {
            let rows = passing_request(plan, shard, known.feasible);
            rows.without(&refused_with_promised(plan, shard, &rows))
        });
        checked(plan, Feasible::of(feasible))
    }

    /// The rows among some that pass every filter, after [`Evaluation::filter`]; `None` if there are none.
    pub(crate) fn feasible_among(
        &self,
        plan: &Filtering<'_, '_>,
        among: &[RowSet],
    ) -> Result<Option<Feasible>, EngineError> {
        let shards = self.shards.iter().zip(&plan.snapshot().shards).zip(among);
        let feasible = shards.map(|((known, shard), among)| {
            let mut rows = known.feasible;
            rows.intersect(among);
            let rows = passing_request(plan, shard, rows);
            rows.without(&refused_with_promised(plan, shard, &rows))
        });
        checked(plan, Feasible::of(feasible))
    }

    /// The rows of one shard that pass every filter, regardless of nominations. No other shard is visited.
    pub(crate) fn passing(&mut self, plan: &Filtering<'_, '_>, shard: &Shard) -> RowSet {
        let Snapshot { shards, lineage, .. } = plan.snapshot();
        if self.lineage != *lineage {
            self.filter(plan);
        }
        self.shards.resize_with(shards.len(), ShardEvaluation::default);
        let known = &mut self.shards[shard.index];
        if known.version != shard.version {
            known.filter(plan, shard, true);
        }
        let rows = passing_request(plan, shard, known.feasible);
        rows.without(&plan.devices().failed_rows(shard))
    }

    /// Number of rows that pass every filter of row scope.
    pub(crate) fn n_feasible(&self) -> u32 {
        self.shards.iter().map(|shard| shard.n_feasible).sum()
    }

    /// The best of the feasible rows.
    pub(crate) fn rank(&mut self, plan: &Scoring<'_, '_>, feasible: &Feasible) -> &mut Ranking {
        self.score(plan);
        self.rank_together(plan, feasible);
        &mut self.best
    }

    /// The best of the rows, if all filters and scores have row scope.
    pub(crate) fn rank_rows(&mut self, plan: &Plan<'_>) -> &mut Ranking {
        self.score(plan);
        self.rank_by_shard(plan);
        &mut self.best
    }

    /// Scores every changed shard, row by row.
    fn score(&mut self, plan: &Plan<'_>) {
        self.plain.resize(self.shards.len(), [0; ROWS]);
        let shards = self.shards.iter_mut().zip(&mut self.plain).zip(&plan.snapshot().shards);
        let is_due =
            |e: &ShardEvaluation| e.n_feasible > 0 && (!e.is_scored || !e.unscored.is_empty());
        let due = shards.filter(|((evaluation, _), _)| is_due(evaluation));
        on_each(due.collect(), |((evaluation, plain), shard)| {
            evaluation.score(plan, shard, plain);
        });
    }

    /// Ranks shard by shard: a shard's ranking is valid until the shard or a highest raw score changes.
    fn rank_by_shard(&mut self, plan: &Plan<'_>) {
        let mut maxima: Maxima = SmallVec::from_elem(0, plan.normalized_scores().len());
        for evaluation in self.shards.iter().filter(|e| e.n_feasible > 0) {
            for (max, raw) in maxima.iter_mut().zip(&evaluation.raw) {
                *max = (*max).max(raw.max);
            }
        }
        if self.maxima != maxima {
            self.shards.iter_mut().for_each(|shard| shard.ranking = None);
            self.maxima = maxima;
        }
        self.best.clear();
        for (i, (evaluation, plain)) in self.shards.iter_mut().zip(&self.plain).enumerate() {
            if evaluation.n_feasible > 0 {
                let ranking = evaluation.ranked(plan, plain, &self.maxima);
                self.best.add(i, ranking.best, ranking.rows);
            }
        }
    }

    /// Passes the weighted totals of some feasible rows to `take`, shard by shard, normalized over exactly these rows:
    /// the shard, its rows among them, their totals (undefined for other rows), and a constant to be added to each
    /// total.
    pub(crate) fn totals(
        &mut self,
        plan: &Scoring<'_, '_>,
        feasible: &Feasible,
        take: impl FnMut(usize, &RowSet, &[i32; ROWS], i32),
    ) {
        self.score(plan);
        self.add_up(plan, feasible, take);
    }

    /// Ranks where scores depend on other rows: every total is computed again.
    fn rank_together(&mut self, plan: &Scoring<'_, '_>, feasible: &Feasible) {
        let kernels = plan.kernels;
        let mut best = std::mem::take(&mut self.best);
        best.clear();
        self.add_up(plan, feasible, |shard, rows, totals, constant| {
            let highest = kernels.max_of(totals, rows);
            best.add(shard, highest + constant, kernels.rows_equal(totals, rows, highest));
        });
        self.best = best;
    }

    fn add_up(
        &self,
        plan: &Scoring<'_, '_>,
        feasible: &Feasible,
        mut take: impl FnMut(usize, &RowSet, &[i32; ROWS], i32),
    ) {
        debug_assert_eq!(
            self.shards.len(),
            feasible.by_shard().len(),
            "a set of rows for each shard"
        );
        debug_assert_eq!(self.shards.len(), self.plain.len(), "every shard is scored");
        let kernels = plan.kernels;
        let mut maxima: Maxima = SmallVec::from_elem(0, plan.normalized_scores().len());
        for (evaluation, rows) in self.shards.iter().zip(feasible.by_shard()) {
            for (max, raw) in maxima.iter_mut().zip(&evaluation.raw) {
                if let Some(column) = &raw.column {
                    *max = (*max).max(kernels.max_of(column, rows));
                }
            }
        }
        let scores: SmallVec<[Normalized; 2]> = plan
            .cluster_scores()
            .iter()
            .filter_map(|(score, weight)| Normalized::of(plan, *score, *weight, feasible))
            .collect();
        for (i, rows) in feasible.by_shard().iter().enumerate().filter(|(_, rows)| !rows.is_empty())
        {
            let mut totals = Cow::Borrowed(&self.plain[i]);
            let constant = add_raw(plan, &mut totals, &self.shards[i].raw, &maxima);
            scores.iter().for_each(|score| score.add_to(totals.to_mut(), i, rows));
            take(i, rows, &totals, constant);
        }
    }
}

/// Shards with what is known of them.
type Shards<T> = SmallVec<[T; 8]>;

/// Number of changed shards from which on all threads work on them: 65,000 nodes, some 0.5 ms. With fewer, to wake the
/// threads takes what they save.
const MANY: usize = 256;

/// Does some work on each of these shards, on one thread or many; each by itself, so that the result is the same.
fn on_each<T: Send>(shards: Shards<T>, work: impl Fn(T) + Sync + Send) {
    if shards.len() < MANY || rayon::current_num_threads() == 1 {
        shards.into_iter().for_each(work);
    } else {
        shards.into_vec().into_par_iter().with_min_len(MANY / 16).for_each(work);
    }
}

/// Some feasible rows, unless a filter failed on one of them.
fn checked(plan: &Plan<'_>, feasible: Option<Feasible>) -> Result<Option<Feasible>, EngineError> {
    let Some(rows) = &feasible else { return Ok(None) };
    let is_reached = |row: NodeRow| {
        rows.by_shard().get(row.shard()).is_some_and(|rows| rows.contains(row.row()))
    };
    match plan.devices().failure(is_reached) {
        None => Ok(feasible),
        Some(why) => Err(EngineError::SchedulerError {
            message: format!("running \"{}\" filter plugin: {why}", Plugin::DynamicResources),
        }),
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
fn passing_request(plan: &Filtering<'_, '_>, shard: &Shard, mut rows: RowSet) -> RowSet {
    for filter in plan.filters().iter().filter(|filter| filter.scope == Scope::Request) {
        if rows.is_empty() {
            break;
        }
        (filter.run)(plan, shard, &mut rows);
    }
    rows
}

impl ShardEvaluation {
    fn forget_scores(&mut self) {
        self.is_scored = false;
        self.raw.clear();
        self.ranking = None;
    }

    /// Updates the feasible rows to the shard's version.
    fn filter(&mut self, plan: &Plan<'_>, shard: &Shard, is_same_lineage: bool) {
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
        // What failed is not remembered, so that it fails again.
        let has_failed = !plan.devices().failed_rows(shard).is_empty();
        self.version = if has_failed { 0 } else { shard.version };
    }

    /// The rows that changed since the last evaluation, if they are known and few.
    fn changed(&self, plan: &Plan<'_>, shard: &Shard, is_same_lineage: bool) -> Option<RowSet> {
        if !is_same_lineage || self.version == 0 || shard.version < self.version {
            return None;
        }
        let changed = plan.kernels.rows_above(&shard.usage.version.0, self.version);
        (changed.len() < FEW).then_some(changed)
    }

    /// Updates the scores of feasible rows to the shard's version.
    fn score(&mut self, plan: &Plan<'_>, shard: &Shard, plain: &mut [i32; ROWS]) {
        let mut rows = self.feasible;
        if self.is_scored {
            rows.intersect(&self.unscored);
            self.unscored.iter().for_each(|row| plain[row] = 0);
        } else {
            *plain = [0; ROWS];
            self.raw = SmallVec::from_elem(RawScores::default(), plan.normalized_scores().len());
        }
        for (score, weight) in plan.plain_scores() {
            score.add_rows(plan, shard, &rows, plain, *weight);
        }
        let mut scratch = [0; ROWS];
        for ((score, _), raw) in plan.normalized_scores().iter().zip(&mut self.raw) {
            raw.clear(&self.unscored);
            if score.add_rows(plan, shard, &rows, &mut scratch, 1) {
                raw.take(&rows, &mut scratch);
            }
            raw.max = match &raw.column {
                Some(column) => plan.kernels.max_of(column, &self.feasible).max(0),
                None => 0,
            };
        }
        self.ranking = None;
        self.unscored = RowSet::EMPTY;
        self.is_scored = true;
    }

    /// The ranking under these maxima, computed again unless valid.
    fn ranked(&mut self, plan: &Plan<'_>, plain: &[i32; ROWS], maxima: &Maxima) -> &ShardRanking {
        self.ranking.get_or_insert_with(|| rank(plan, &self.feasible, plain, &self.raw, maxima))
    }
}

impl RawScores {
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

/// The highest total under the given maxima, and the rows that have it.
fn rank(
    plan: &Plan<'_>,
    rows: &RowSet,
    plain: &[i32; ROWS],
    raw: &[RawScores],
    maxima: &Maxima,
) -> ShardRanking {
    let mut totals = Cow::Borrowed(plain);
    let constant = add_raw(plan, &mut totals, raw, maxima);
    let best = plan.kernels.max_of(&totals, rows);
    let rows = plan.kernels.rows_equal(&totals, rows, best);
    ShardRanking { best: best + constant, rows }
}

/// Adds the weighted scores of raw scores under the given maxima; returns a constant to be added to every row.
fn add_raw(
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
            None => constant += weighted(0),
            Some(column) => add_weighted(totals.to_mut(), column, *max, weighted),
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
        let table: [i32; TABLE] = std::array::from_fn(|raw| weighted((raw as i32).min(max)));
        // Rows that are not feasible may hold any value from 0 on.
        for (total, raw) in totals.iter_mut().zip(column) {
            *total += table[*raw as usize % TABLE];
        }
    } else {
        for (total, raw) in totals.iter_mut().zip(column) {
            *total += weighted((*raw).min(max));
        }
    }
}
