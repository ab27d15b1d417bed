//! Evaluation: which rows are feasible and how they score, shard by shard, kept with the shard versions it was made
//! from.
//!
//! Evaluating again works only on changed shards. For the others it reads one version and one total of each, which lie
//! side by side; a shard is ranked again only when it or the highest raw score changes.

mod by_class;

use std::borrow::Cow;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::classes::Classes;
use super::normalized::Normalized;
use super::promised::refused_with_promised;
use super::ranking::{Feasible, Ranking};
use super::raw_maxima::RawMaxima;
use super::shard_evaluation::{Maxima, ShardEvaluation, add_raw, passing_request};
use super::shard_set::ShardSet;
use crate::census::Census;
use crate::error::EngineError;
use crate::plan::Plan;
use crate::plan::counted::{Filtering, Scoring};
use crate::plugin::Plugin;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::known_versions::KnownVersions;
use crate::snapshot::shard::Shard;

/// The evaluation of one shape under one policy.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    shards: Vec<ShardEvaluation>,
    /// The versions of `shards`.
    versions: KnownVersions,
    /// Number of feasible rows of all shards.
    n_feasible: u32,
    /// Shards that changed since they were scored; since they were ranked.
    unscored: ShardSet,
    unranked: ShardSet,
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
    raw_maxima: RawMaxima,
    /// The highest raw scores under which shards were last ranked one by one.
    maxima: Maxima,
    /// The best rows of the last ranking.
    best: Ranking,
    /// Whether there was one; whether it was shard by shard.
    is_ranked: bool,
    is_by_shard: bool,
    /// The feasible rows by class, once they are needed.
    classes: Option<Box<Classes>>,
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
        if std::mem::replace(&mut self.devices, devices) != devices
            || shards.len() < self.shards.len()
        {
            self.forget_shards();
        }
        let is_same_lineage = std::mem::replace(&mut self.lineage, *lineage) == *lineage;
        self.resize(shards.len());
        let changed = self.versions.changed(shards);
        if are_few(changed.len()) {
            for index in changed {
                self.refilter(plan, &shards[index], is_same_lineage);
            }
        } else {
            let due = self.shards.iter_mut().zip(shards);
            let due = due.filter(|(evaluation, shard)| evaluation.version != shard.version);
            on_all(due.collect(), |(evaluation, shard)| {
                evaluation.filter(plan, shard, is_same_lineage);
            });
            self.n_feasible = self.shards.iter().map(|shard| shard.n_feasible).sum();
            changed.into_iter().for_each(|index| self.note(index));
        }
        self.versions.note_groups(shards);
        if self.n_nodes != plan.n_nodes() {
            self.n_nodes = plan.n_nodes();
            self.shards.iter_mut().for_each(|shard| shard.is_scored = false);
            self.unscored = ShardSet::all(self.shards.len());
        }
    }

    /// Filters one shard.
    fn refilter(&mut self, plan: &Plan<'_>, shard: &Shard, is_same_lineage: bool) {
        let evaluation = &mut self.shards[shard.index];
        self.n_feasible -= evaluation.n_feasible;
        evaluation.filter(plan, shard, is_same_lineage);
        self.n_feasible += evaluation.n_feasible;
        self.note(shard.index);
    }

    /// Notes that a shard was filtered.
    fn note(&mut self, index: usize) {
        self.versions.note(index, self.shards[index].version);
        self.unscored.insert(index);
        self.unranked.insert(index);
    }

    fn resize(&mut self, n_shards: usize) {
        self.shards.resize_with(n_shards, ShardEvaluation::default);
    }

    /// Forgets all that is known of shards.
    fn forget_shards(&mut self) {
        self.shards.clear();
        self.versions = KnownVersions::default();
        self.n_feasible = 0;
        self.raw_maxima = RawMaxima::default();
        self.unscored.clear();
        self.unranked.clear();
        self.best = Ranking::default();
        self.classes = None;
    }

    /// An evaluation of nothing, like the default one, in the memory of this one.
    pub(crate) fn emptied(self) -> Evaluation {
        let Evaluation { mut shards, plain, .. } = self;
        shards.clear();
        Evaluation { shards, plain, ..Evaluation::default() }
    }

    /// A copy for a fork of the plan's snapshot, evaluated up to there: everything that the fork changes later has
    /// newer versions.
    pub(crate) fn fork(&mut self, base: &mut Plan<'_>, lineage: u64) -> Evaluation {
        self.filter(base);
        self.score(base);
        base.scoring(self, |_, _| ());
        Evaluation {
            shards: self.shards.clone(),
            versions: self.versions.clone(),
            n_feasible: self.n_feasible,
            unscored: self.unscored.clone(),
            unranked: ShardSet::all(self.shards.len()),
            plain: self.plain.clone(),
            lineage,
            devices: self.devices,
            n_nodes: self.n_nodes,
            census: self.census.fork(lineage),
            raw_maxima: self.raw_maxima.clone(),
            maxima: self.maxima.clone(),
            // The fork's best rows soon differ from those that the hashes are cached of.
            best: Ranking::default(),
            is_ranked: false,
            is_by_shard: false,
            classes: None,
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
        let mut shards = self.shards.clone();
        shards.iter_mut().for_each(ShardEvaluation::forget_scores);
        Evaluation {
            versions: self.versions.clone(),
            n_feasible: self.n_feasible,
            unscored: ShardSet::all(shards.len()),
            unranked: ShardSet::all(shards.len()),
            shards,
            n_nodes: self.n_nodes,
            lineage,
            census,
            ..Evaluation::default()
        }
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
        self.resize(shards.len());
        if self.versions.of(shard.index) != shard.version {
            self.refilter(plan, shard, true);
        }
        let rows = passing_request(plan, shard, self.shards[shard.index].feasible);
        rows.without(&plan.devices().failed_rows(shard))
    }

    /// Number of rows that pass every filter of row scope.
    pub(crate) fn n_feasible(&self) -> u32 {
        self.n_feasible
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
        let shards = &plan.snapshot().shards;
        self.plain.resize(self.shards.len(), [0; ROWS]);
        if are_few(self.unscored.len()) {
            for index in self.unscored.iter() {
                if self.shards[index].is_to_be_scored() {
                    self.shards[index].score(plan, &shards[index], &mut self.plain[index]);
                }
            }
        } else {
            let due = self.shards.iter_mut().zip(&mut self.plain).zip(shards);
            let due = due.filter(|((evaluation, _), _)| evaluation.is_to_be_scored());
            on_all(due.collect(), |((evaluation, plain), shard)| {
                evaluation.score(plan, shard, plain);
            });
        }
        self.unscored.iter().for_each(|index| self.unranked.insert(index));
        self.unscored.clear();
    }

    /// Ranks shard by shard: a shard's ranking is valid until the shard or a highest raw score changes.
    fn rank_by_shard(&mut self, plan: &Plan<'_>) {
        let maxima = self.raw_maxima(plan.normalized_scores().len());
        let is_by_shard = std::mem::replace(&mut self.is_by_shard, true);
        self.classes = None;
        if std::mem::replace(&mut self.maxima, maxima.clone()) != maxima || !is_by_shard {
            self.unrank_all();
        }
        self.best.resize(self.shards.len());
        for index in self.unranked.iter() {
            let (evaluation, plain) = (&mut self.shards[index], &self.plain[index]);
            let known = self.best.of_shard(index);
            let (total, rows) = evaluation.rank(plan, plain, &maxima, known);
            self.best.set(&plan.snapshot().shards[index], total, rows);
        }
        self.unranked.clear();
        self.best.settle();
    }

    fn unrank_all(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.unranked = RowSet::FULL);
        self.unranked = ShardSet::all(self.shards.len());
    }

    /// The highest raw scores over all feasible rows, where those of a shard are read again only if it changed.
    fn raw_maxima(&mut self, n_scores: usize) -> Maxima {
        self.raw_maxima.resize(self.shards.len(), n_scores);
        for index in self.unranked.iter() {
            let evaluation = &self.shards[index];
            let is_feasible = evaluation.n_feasible > 0;
            let maxima = evaluation.raw.iter().map(|raw| if is_feasible { raw.max } else { 0 });
            self.raw_maxima.set(index, maxima);
        }
        self.raw_maxima.of_all().clone()
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
        let mut best = std::mem::take(&mut self.best);
        self.rank_into(&mut best, plan, feasible);
        self.best = best;
        self.is_ranked = true;
        if let Some(classes) = &mut self.classes {
            classes.forget_ranking();
        }
        self.is_by_shard = false;
    }

    fn rank_into(&self, best: &mut Ranking, plan: &Scoring<'_, '_>, feasible: &Feasible) {
        let (kernels, shards) = (plan.kernels, &plan.snapshot().shards);
        best.clear(shards.len());
        self.add_up(plan, feasible, |shard, rows, totals, constant| {
            let highest = kernels.max_of(totals, rows);
            let rows = kernels.rows_equal(totals, rows, highest);
            best.set(&shards[shard], highest + constant, rows);
        });
        best.settle();
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
                *max = (*max).max(raw.max_of(kernels, rows));
            }
        }
        let scores: SmallVec<[Normalized<'_>; 2]> = plan
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

/// Number of changed shards from which on all threads work on them: 65,000 nodes, some 0.5 ms. With fewer, to wake the
/// threads takes what they save.
const MANY: usize = 256;

/// Whether so many shards are worked on by one thread.
fn are_few(n_shards: usize) -> bool {
    n_shards < MANY || rayon::current_num_threads() == 1
}

/// Does some work on each of these shards on all threads; each by itself, so that the result is the same.
fn on_all<T: Send>(shards: Vec<T>, work: impl Fn(T) + Sync + Send) {
    shards.into_par_iter().with_min_len(MANY / 16).for_each(work);
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
