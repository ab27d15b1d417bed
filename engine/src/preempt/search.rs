//! Search: every node where evicting might help, tried in parallel; the best eviction of all. Rules: S-PRE-5, S-PRE-6,
//! S-PRE-17, S-PRE-19, S-PRE-20.
//!
//! The answer does not depend on how many threads there are: nodes are tried each on its own, and their evictions compared in
//! the nodes' order.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::All;
use super::elsewhere;
use super::eviction::{Eviction, Found, Scratch, Search};
use super::outcome::{Candidate, Victim};
use super::rank::Rank;
use super::request::{PreemptRequest, VictimPlacement};
use super::resolvable::Resolvable;
use super::sample;
use crate::filter::reason::Reason;
use crate::filter::{ReasonCounts, Refusal};
use crate::place::Plan;
use crate::place::decision::{NodeVerdict, Verdict};
use crate::place::explain::rejected;
use crate::place::message::from_counts;
use crate::place::ranking::Ranking;
use crate::place::select::select;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::{NodeRow, Snapshot};

/// How much is to be told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Best,
    All,
}

/// What a search comes to.
pub(super) struct Searched {
    /// The best candidate, and its row.
    pub(super) chosen: Option<(NodeRow, Candidate)>,
    pub(super) n_candidates: u32,
    pub(super) n_best: u32,
    /// The inner failure message, where there is no candidate (S-ERR-8).
    pub(super) why_none: String,
    pub(super) all: All,
}

/// What was found on the nodes that were tried.
#[derive(Default)]
struct Tried {
    /// Those that are equal to the last, in the nodes' order; all, where that is wished for.
    evictions: Vec<Eviction>,
    n_candidates: u32,
    /// Whether any of them violates no budget.
    has_harmless: bool,
    /// Evictions that were passed over because they violate a budget.
    refused: Vec<NodeRow>,
    /// Nodes that need no eviction and yet are not feasible (S-PRE-15).
    errors: Vec<NodeRow>,
    not_helped: Vec<(NodeRow, WhyNot)>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum WhyNot {
    NoVictims,
    NoHelp,
}

/// Fewer nodes than this are tried on one thread.
const MANY: usize = 512;

/// Looks for the best eviction. The text of an error is kube-scheduler's.
pub(super) fn search(
    plan: &Plan<'_>,
    request: &PreemptRequest<'_>,
    versions: &Arc<AtomicU64>,
    resolvable: &Resolvable,
    wish: Wish,
) -> Result<Searched, String> {
    let search = Search::new(plan);
    let keeps_all =
        wish == Wish::All || request.options.victim_placement == VictimPlacement::Prefer;
    let trial = Trial {
        plan,
        search,
        keeps_all,
        refuses_violations: request.options.refuse_pdb_violations,
    };
    let mut tried = match request.options.sample {
        None => trial.all(resolvable),
        Some(seed) => trial.sample(resolvable, seed),
    };
    if tried.n_candidates == 0 && !tried.errors.is_empty() {
        return Err(trial.error(&tried.errors));
    }
    if keeps_all {
        tried.evictions.par_iter_mut().for_each(|eviction| trial.settle(eviction));
    }
    if request.options.victim_placement == VictimPlacement::Prefer {
        elsewhere::rank(plan, versions, &mut tried.evictions);
    }
    Ok(trial.searched(request, versions, resolvable, &tried, wish))
}

struct Trial<'p, 'a> {
    plan: &'p Plan<'a>,
    search: Search<'p, 'a>,
    keeps_all: bool,
    refuses_violations: bool,
}

impl Tried {
    /// Takes in one more eviction, in the nodes' order.
    fn take(&mut self, eviction: Eviction, keeps_all: bool) {
        self.n_candidates += 1;
        if !keeps_all && let Some(best) = self.evictions.first() {
            match eviction.rank.cmp(&best.rank) {
                Ordering::Less => self.evictions.clear(),
                Ordering::Equal => {}
                Ordering::Greater => return,
            }
        }
        self.evictions.push(eviction);
    }

    /// Takes in what was found on later nodes.
    fn join(mut self, later: Tried, keeps_all: bool) -> Tried {
        let n_candidates = self.n_candidates + later.n_candidates;
        later.evictions.into_iter().for_each(|eviction| self.take(eviction, keeps_all));
        self.n_candidates = n_candidates;
        self.refused.extend(later.refused);
        self.errors.extend(later.errors);
        self.not_helped.extend(later.not_helped);
        self
    }
}

impl Trial<'_, '_> {
    /// Every node.
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

    /// Nodes from an offset on, until there are enough candidates (S-PRE-6).
    fn sample(&self, resolvable: &Resolvable, seed: u64) -> Tried {
        let order = sample::order(self.plan, resolvable.rows(), seed);
        let args = self.plan.prepared.policy().spec().default_preemption;
        let n_wanted = sample::n_wanted(args, order.len()) as u32;
        let (mut tried, mut scratch) = (Tried::default(), Scratch::default());
        for row in order {
            let shard = &self.plan.prepared.snapshot().shards[row.shard()];
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
        if !rows.is_empty() {
            let shard = &self.plan.prepared.snapshot().shards[index];
            let passing = self.search.runs().passing_whatever_pods(shard, *rows);
            for row in rows.iter() {
                let at = NodeRow::new(index, row);
                self.row(at, passing.contains(row), &mut scratch, &mut tried);
            }
        }
        tried
    }

    /// One node more.
    fn row(&self, row: NodeRow, passes: bool, scratch: &mut Scratch, tried: &mut Tried) {
        let shard = &self.plan.prepared.snapshot().shards[row.shard()];
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

    fn settle(&self, eviction: &mut Eviction) {
        let shard = &self.plan.prepared.snapshot().shards[eviction.row.shard()];
        self.search.settle(shard, eviction);
    }

    fn error(&self, rows: &[NodeRow]) -> String {
        let snapshot = self.plan.prepared.snapshot();
        let names = rows.iter().filter_map(|row| Some(snapshot.node(*row)?.name()));
        let first = names.min().unwrap_or_default();
        format!("expected at least one victim pod on node \"{first}\"")
    }

    fn searched(
        &self,
        request: &PreemptRequest<'_>,
        versions: &Arc<AtomicU64>,
        resolvable: &Resolvable,
        tried: &Tried,
        wish: Wish,
    ) -> Searched {
        let snapshot = self.plan.prepared.snapshot();
        let least: Option<Rank> = tried.evictions.iter().map(|eviction| eviction.rank).min();
        let best: Vec<&Eviction> =
            tried.evictions.iter().filter(|eviction| Some(eviction.rank) == least).collect();
        let chosen = self.choose(request, &best).map(|eviction| {
            let mut eviction = eviction.clone();
            self.settle(&mut eviction);
            let mut candidate = candidate(snapshot, &eviction);
            if request.options.victim_placement != VictimPlacement::Ignore {
                elsewhere::report(self.plan, versions, &eviction, &mut candidate);
            }
            (eviction.row, candidate)
        });
        let all = if wish == Wish::All {
            All {
                candidates: tried.evictions.iter().map(|e| candidate(snapshot, e)).collect(),
                best: best.iter().map(|eviction| name(snapshot, eviction.row)).collect(),
                not_helped: self.verdicts(tried),
            }
        } else {
            All::default()
        };
        let why_none =
            if chosen.is_none() { self.why_none(resolvable, tried) } else { String::new() };
        let (n_candidates, n_best) = (tried.n_candidates, best.len() as u32);
        Searched { chosen, n_candidates, n_best, why_none, all }
    }

    /// Of evictions that are equal to the last the one on the node that a placement would fall on (S-PRE-20).
    fn choose<'e>(
        &self,
        request: &PreemptRequest<'_>,
        best: &[&'e Eviction],
    ) -> Option<&'e Eviction> {
        if let [] | [_] = best {
            return best.first().copied();
        }
        let mut rows: Vec<NodeRow> = best.iter().map(|eviction| eviction.row).collect();
        rows.sort_unstable();
        let mut ranking = Ranking::default();
        ranking.clear();
        for of_shard in rows.chunk_by(|a, b| a.shard() == b.shard()) {
            ranking.add(of_shard[0].shard(), 0, of_shard.iter().map(|row| row.row()).collect());
        }
        let row = select(self.plan, &mut ranking, request.tie_break);
        best.iter().copied().find(|eviction| eviction.row == row)
    }

    /// Counted over the nodes that were tried, all others under one reason (S-ERR-8).
    fn why_none(&self, resolvable: &Resolvable, tried: &Tried) -> String {
        let mut counts = ReasonCounts::default();
        for (row, why) in &tried.not_helped {
            let refusal = self.refusal(*row, *why).map(|(_, refusal)| refusal);
            refusal.iter().flat_map(|r| &r.reasons).for_each(|reason| counts.add(*reason, 1));
        }
        counts.add(Reason::DisruptionBudget, tried.refused.len() as u32);
        let n_others = self.plan.prepared.n_nodes() - resolvable.len();
        counts.add(Reason::PreemptionNotHelpful, n_others as u32);
        from_counts(self.plan, &counts).message
    }

    fn verdicts(&self, tried: &Tried) -> Vec<NodeVerdict> {
        let snapshot = self.plan.prepared.snapshot();
        let not_helped = tried.not_helped.iter().filter_map(|(row, why)| {
            let (plugin, refusal) = self.refusal(*row, *why)?;
            let verdict = rejected(self.plan.prepared.names(), plugin, &refusal);
            Some(NodeVerdict { node: name(snapshot, *row), verdict })
        });
        let refused = tried.refused.iter().map(|row| {
            let refusal = Refusal::of(Reason::DisruptionBudget);
            let verdict: Verdict = rejected(self.plan.prepared.names(), None, &refusal);
            NodeVerdict { node: name(snapshot, *row), verdict }
        });
        not_helped.chain(refused).collect()
    }

    fn refusal(
        &self,
        row: NodeRow,
        why: WhyNot,
    ) -> Option<(Option<crate::plugin::Plugin>, Refusal)> {
        match why {
            WhyNot::NoVictims => Some((None, Refusal::of(Reason::NoVictims))),
            WhyNot::NoHelp => {
                let shard = &self.plan.prepared.snapshot().shards[row.shard()];
                let (plugin, refusal) = self.search.refusal(shard, row.row())?;
                Some((Some(plugin), refusal))
            }
        }
    }
}

fn candidate(snapshot: &Snapshot, eviction: &Eviction) -> Candidate {
    let pods = snapshot.shards[eviction.row.shard()].pods.of(eviction.row.row());
    let victim = |at: &u32| {
        let pod = &pods[*at as usize].pod;
        Victim {
            pod: pod.key().clone(),
            uid: pod.facts().uid.clone(),
            priority: pod.priority(),
            is_terminating: pod.is_terminating(),
            elsewhere: None,
        }
    };
    Candidate {
        node: name(snapshot, eviction.row),
        victims: eviction.victims.iter().map(victim).collect(),
        n_pdb_violations: eviction.rank.n_violations,
    }
}

fn name(snapshot: &Snapshot, row: NodeRow) -> Arc<str> {
    snapshot.node(row).map_or_else(|| "".into(), |node| node.facts().name.clone())
}
