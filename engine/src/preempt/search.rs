//! Search: tries every node where evicting might help, in parallel, and finds the best eviction. Rules: S-PRE-5,
//! S-PRE-6, S-PRE-15, S-PRE-19.
//!
//! The result does not depend on the number of threads: each node is tried by itself, and evictions are compared in the
//! nodes' order.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::answer::{Detail, Finished, Searched};
use super::eviction::{Found, Scratch, Search};
use super::request::{PreemptRequest, VictimPlacement};
use super::resolvable::Resolvable;
use super::tried::{Tried, WhyNot};
use super::{elsewhere, sample};
use crate::plan::counted::Filtering;
use crate::rows::{NodeRow, ROWS, RowSet};

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
    detail: Detail,
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
        None => trial.all(resolvable),
        Some(seed) => trial.sample(resolvable, seed),
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
    /// Tries every node.
    fn all(&self, resolvable: &Resolvable) -> Tried {
        let shards = resolvable.by_shard();
        let of_shard = |(shard, rows): (usize, &RowSet)| self.shard(shard, rows);
        let joined = |tried: Tried, later| tried.join(later, self.keeps_all);
        if resolvable.len() < MANY {
            return shards.iter().enumerate().map(of_shard).fold(Tried::default(), joined);
        }
        let tried: Vec<Tried> = shards.par_iter().enumerate().map(of_shard).collect();
        tried.into_iter().fold(Tried::default(), joined)
    }

    /// Tries nodes from an offset on, until there are enough candidates (S-PRE-6).
    fn sample(&self, resolvable: &Resolvable, seed: u64) -> Tried {
        let order = sample::order(self.plan, resolvable.rows(), seed);
        let args = self.plan.policy().spec().default_preemption;
        let n_wanted = sample::n_wanted(args, order.len()) as u32;
        let (mut tried, mut scratch) = (Tried::default(), Scratch::default());
        for (i, row) in order.into_iter().enumerate() {
            if i % ROWS == 0 && (self.cancelled)() {
                break;
            }
            let shard = &self.plan.snapshot().shards[row.shard()];
            let rows = self.search.runs().passing_whatever_pods(shard, row.of_shard(row.shard()));
            self.row(row, !rows.is_empty(), &mut scratch, &mut tried);
            if tried.has_harmless && tried.n_candidates >= n_wanted {
                break;
            }
        }
        tried
    }

    fn shard(&self, index: usize, rows: &RowSet) -> Tried {
        let (mut tried, mut scratch) = (Tried::default(), Scratch::default());
        if !rows.is_empty() && !(self.cancelled)() {
            let shard = &self.plan.snapshot().shards[index];
            let passing = self.search.runs().passing_whatever_pods(shard, *rows);
            for row in rows.iter() {
                let at = NodeRow::new(index, row);
                self.row(at, passing.contains(row), &mut scratch, &mut tried);
            }
        }
        tried
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
                tried.take(eviction, self.keeps_all);
            }
            Found::Eviction(_) if self.refuses_violations => tried.refused.push(row),
            Found::Eviction(eviction) => tried.take(eviction, self.keeps_all),
        }
    }

    fn error(&self, rows: &[NodeRow]) -> String {
        let snapshot = self.plan.snapshot();
        let names = rows.iter().filter_map(|row| Some(snapshot.node(*row)?.name()));
        let first = names.min().unwrap_or_default();
        format!("expected at least one victim pod on node \"{first}\"")
    }
}
