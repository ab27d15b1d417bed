//! Search: tries every node where evicting might help, in parallel, and finds the best eviction. Rules: S-PRE-5,
//! S-PRE-6, S-PRE-15, S-PRE-19.
//!
//! The result does not depend on the number of threads: each node is tried by itself, and evictions are compared in the
//! nodes' order.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::answer::{Detail, Finished, Searched};
use super::elsewhere;
use super::eviction::{Found, Scratch, Search};
use super::known::{Basis, Due, Known};
use super::known_rows::RowResult;
use super::request::{PreemptRequest, VictimPlacement};
use super::resolvable::Resolvable;
use super::sample;
use super::tried::{BestRows, Tried, WhyNot};
use crate::plan::counted::Filtering;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::snapshot::shard::Shard;

/// Why a search has no outcome.
pub(super) enum Stopped {
    /// An error, as kube-scheduler words it.
    Failed(String),
    Cancelled,
}

/// Below this number of nodes, one thread tries all.
const MANY: usize = 512;

/// Finds the best eviction.
pub(super) fn search<'p>(
    plan: &'p Filtering<'p, '_>,
    request: &'p PreemptRequest<'p>,
    versions: &Arc<AtomicU64>,
    resolvable: &Resolvable,
    (detail, known): (Detail, &mut Known),
) -> Result<Searched, Stopped> {
    let search = Search::new(plan);
    let keeps_all =
        detail == Detail::All || request.options.victim_placement == VictimPlacement::Prefer;
    let trial = Trial {
        plan,
        search,
        keeps_all,
        refuses_violations: request.options.refuse_pdb_violations,
        cancelled: request.cancelled,
    };
    let mut tried = match request.options.sample {
        None => trial.all(resolvable, known),
        Some(seed) => trial.sample(resolvable, seed, known),
    };
    if tried.n_candidates == 0 && !tried.errors.is_empty() {
        return Err(Stopped::Failed(trial.error(&tried.errors)));
    }
    if keeps_all {
        tried.evictions.par_iter_mut().for_each(|eviction| trial.search.settle(eviction));
    }
    if request.options.victim_placement == VictimPlacement::Prefer {
        elsewhere::rank(plan, versions, &mut tried.evictions, request.cancelled);
    }
    if (request.cancelled)() {
        return Err(Stopped::Cancelled);
    }
    let finished = Finished { plan, request, search: &trial.search, resolvable, tried: &tried };
    Ok(finished.of(detail, versions))
}

struct Trial<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    search: Search<'p, 'a>,
    keeps_all: bool,
    refuses_violations: bool,
    cancelled: &'p (dyn Fn() -> bool + Sync),
}

impl Trial<'_, '_> {
    /// Tries every node, except on shards that are as they are known.
    fn all(&self, resolvable: &Resolvable, known: &mut Known) -> Tried {
        let mut forgotten = Known::default();
        let known = if self.is_rememberable() { known } else { &mut forgotten };
        let shards = &self.plan.snapshot().shards;
        let basis = |(shard, rows): (&Arc<Shard>, &RowSet)| {
            let passing = self.search.runs().passing_whatever_pods(shard, *rows);
            Basis { version: shard.version, rows: *rows, passing }
        };
        let now: Vec<Basis> = shards.iter().zip(resolvable.by_shard()).map(basis).collect();
        let mut due = known.due(&now);
        let n_rows: usize = due.iter().map(|(_, basis, _)| basis.rows.len() as usize).sum();
        let retry =
            |(index, basis, tried): &mut Due<'_>| tried.set(*basis, self.shard(*index, *basis));
        if n_rows < MANY {
            due.iter_mut().for_each(retry);
        } else {
            due.par_iter_mut().for_each(retry);
        }
        let mut all = Tried::default();
        known.tried().for_each(|tried| all.join(tried, self.keeps_all));
        all
    }

    /// Whether the results on a shard depend on its rows alone: no budget, nomination, volume or device takes part, nor
    /// other pods by their labels; and only the best are wanted.
    fn is_rememberable(&self) -> bool {
        !self.keeps_all
            && self.search.depends_on_rows_alone()
            && self.plan.promised().is_empty()
            && !self.plan.pod().is_bound_to_objects()
    }

    /// Tries nodes from an offset on, until there are enough candidates (S-PRE-6); none that is as it is known.
    fn sample(&self, resolvable: &Resolvable, seed: u64, known: &mut Known) -> Tried {
        let Known { order, by_row, .. } = known;
        let order = order.of(self.plan.snapshot());
        let args = self.plan.policy().spec().default_preemption;
        let n_wanted = sample::n_wanted(args, resolvable.len()) as u32;
        let (mut tried, mut scratch) = (Tried::default(), Scratch::default());
        let mut best = BestRows::default();
        let is_rememberable = self.is_rememberable();
        let mut passing: Vec<Option<RowSet>> = vec![None; resolvable.by_shard().len()];
        for (i, row) in order.among(resolvable, seed).enumerate() {
            if i % ROWS == 0 && (self.cancelled)() {
                break;
            }
            let shard = &self.plan.snapshot().shards[row.shard()];
            let of_shard = resolvable.by_shard()[row.shard()];
            let passing_of = || self.search.runs().passing_whatever_pods(shard, of_shard);
            let passes = passing[row.shard()].get_or_insert_with(passing_of).contains(row.row());
            if is_rememberable {
                let make = || self.result(shard, row, passes, &mut scratch);
                let result = by_row.get_or_try(shard, row, passes, make);
                tried.note(row, result, &mut best);
            } else {
                self.row(row, passes, &mut scratch, &mut tried);
            }
            if tried.has_harmless && tried.n_candidates >= n_wanted {
                break;
            }
        }
        for row in best.rows() {
            let shard = &self.plan.snapshot().shards[row.shard()];
            if let Found::Eviction(eviction) = self.search.on(shard, row.row(), None, &mut scratch)
            {
                tried.evictions.push(eviction);
            }
        }
        tried
    }

    /// The result on a node where [`Trial::is_rememberable`].
    fn result(
        &self,
        shard: &Shard,
        row: NodeRow,
        passes: bool,
        scratch: &mut Scratch,
    ) -> RowResult {
        let found = match passes {
            true => self.search.on(shard, row.row(), None, scratch),
            false => self.search.beyond_help(shard, row.row()),
        };
        match found {
            Found::Eviction(eviction) => RowResult::Evicts(eviction.rank),
            Found::NoVictims => RowResult::NoVictims,
            Found::NobodyToEvict => RowResult::NobodyToEvict,
            // Nothing is worse than a bound where there is none.
            Found::NoHelp | Found::Worse => RowResult::NoHelp,
        }
    }

    /// The results on a shard; `None` where the search is cancelled.
    fn shard(&self, index: usize, Basis { rows, passing, .. }: Basis) -> Option<Tried> {
        let (mut tried, mut scratch) = (Tried::default(), Scratch::default());
        if (self.cancelled)() {
            return None;
        }
        for row in rows.iter() {
            let at = NodeRow::new(index, row);
            self.row(at, passing.contains(row), &mut scratch, &mut tried);
        }
        Some(tried)
    }

    /// Tries one node.
    fn row(&self, row: NodeRow, passes: bool, scratch: &mut Scratch, tried: &mut Tried) {
        let shard = &self.plan.snapshot().shards[row.shard()];
        let bound = tried.evictions.first().map(|eviction| eviction.rank);
        let bound = bound.filter(|_| !self.keeps_all);
        let found = if passes {
            self.search.on(shard, row.row(), bound.as_ref(), scratch)
        } else {
            self.search.beyond_help(shard, row.row())
        };
        match found {
            Found::NoVictims => tried.not_helped.push((row, WhyNot::NoVictims)),
            Found::NoHelp => tried.not_helped.push((row, WhyNot::NoHelp)),
            Found::NobodyToEvict => tried.errors.push(row),
            Found::Worse => {
                tried.has_harmless = true;
                tried.n_candidates += 1;
            }
            Found::Eviction(eviction) if eviction.rank.n_violations == 0 => {
                tried.has_harmless = true;
                tried.take(&eviction, self.keeps_all);
            }
            Found::Eviction(_) if self.refuses_violations => tried.refused.push(row),
            Found::Eviction(eviction) => tried.take(&eviction, self.keeps_all),
        }
    }

    fn error(&self, rows: &[NodeRow]) -> String {
        let snapshot = self.plan.snapshot();
        let names = rows.iter().filter_map(|row| Some(snapshot.node(*row)?.name()));
        let first = names.min().unwrap_or_default();
        format!("expected at least one victim pod on node \"{first}\"")
    }
}
