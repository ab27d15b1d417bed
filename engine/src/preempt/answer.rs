//! Answer: the outcome of a search. Rules: S-PRE-17, S-PRE-19, S-PRE-20, S-ERR-8.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::elsewhere;
use super::eviction::{Eviction, Search};
use super::outcome::{Candidate, Victim};
use super::rank::Rank;
use super::request::{PreemptRequest, VictimPlacement};
use super::resolvable::Resolvable;
use super::tried::{Tried, WhyNot};
use crate::filter::reason::Reason;
use crate::filter::{ReasonCounts, Refusal};
use crate::place::decision::NodeVerdict;
use crate::place::explain::rejected;
use crate::place::message::from_counts;
use crate::place::ranking::Ranking;
use crate::place::select::select;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// Which candidates a search returns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    Best,
    All,
}

/// Further results of a search; empty unless requested.
#[derive(Default)]
pub(super) struct All {
    pub(super) candidates: Vec<Candidate>,
    pub(super) best: Vec<Arc<str>>,
    pub(super) not_helped: Vec<NodeVerdict>,
}

/// Results of a search.
pub(super) struct Searched {
    /// The row of the best candidate, and the candidate.
    pub(super) chosen: Option<(NodeRow, Candidate)>,
    pub(super) n_candidates: u32,
    pub(super) n_best: u32,
    /// The inner failure message where there is no candidate, else empty.
    pub(super) why_none: String,
    pub(super) all: All,
}

/// A finished search, to derive its results from.
pub(super) struct Finished<'s, 'p, 'a> {
    pub(super) plan: &'p Filtering<'p, 'a>,
    pub(super) request: &'s PreemptRequest<'s>,
    pub(super) search: &'s Search<'p, 'a>,
    pub(super) resolvable: &'s Resolvable,
    pub(super) tried: &'s Tried,
}

impl Finished<'_, '_, '_> {
    pub(super) fn of(&self, detail: Detail, versions: &Arc<AtomicU64>) -> Searched {
        let snapshot = self.plan.snapshot();
        let evictions = &self.tried.evictions;
        let least: Option<Rank> = evictions.iter().map(|eviction| eviction.rank).min();
        let best: Vec<&Eviction> =
            evictions.iter().filter(|eviction| Some(eviction.rank) == least).collect();
        let chosen =
            self.choose(&best).map(|eviction| (eviction.row, self.complete(eviction, versions)));
        let why_none = if chosen.is_none() { self.why_none() } else { String::new() };
        let all = match detail {
            Detail::Best => All::default(),
            Detail::All => All {
                candidates: evictions.iter().map(|e| candidate(snapshot, e)).collect(),
                best: best.iter().map(|eviction| name(snapshot, eviction.row)).collect(),
                not_helped: self.not_helped(),
            },
        };
        let (n_candidates, n_best) = (self.tried.n_candidates, best.len() as u32);
        Searched { chosen, n_candidates, n_best, why_none, all }
    }

    /// The complete candidate of the chosen eviction, in kube-scheduler's victim order.
    fn complete(&self, eviction: &Eviction, versions: &Arc<AtomicU64>) -> Candidate {
        let mut eviction = eviction.clone();
        self.search.settle(&mut eviction);
        let mut candidate = candidate(self.plan.snapshot(), &eviction);
        if self.request.options.victim_placement != VictimPlacement::Ignore {
            elsewhere::report(self.plan, versions, &eviction, &mut candidate);
        }
        candidate
    }

    /// Among evictions of equal rank, the one on the node that a placement would choose (S-PRE-20).
    fn choose<'e>(&self, best: &[&'e Eviction]) -> Option<&'e Eviction> {
        if let [] | [_] = best {
            return best.first().copied();
        }
        let mut rows: Vec<NodeRow> = best.iter().map(|eviction| eviction.row).collect();
        rows.sort_unstable();
        let by_shard = rows.chunk_by(|a, b| a.shard() == b.shard());
        let of_shard =
            |rows: &[NodeRow]| (rows[0].shard(), rows.iter().map(|row| row.row()).collect());
        let mut ranking = Ranking::of(by_shard.map(of_shard).collect());
        let row = select(self.plan, &mut ranking, self.request.tie_break)?;
        best.iter().copied().find(|eviction| eviction.row == row)
    }

    /// The failure message: reasons counted over the nodes that were tried, all others under one reason (S-ERR-8).
    fn why_none(&self) -> String {
        let mut counts = ReasonCounts::default();
        for (row, why) in &self.tried.not_helped {
            let refusal = self.refusal(*row, *why).map(|(_, refusal)| refusal);
            refusal.iter().flat_map(|r| &r.reasons).for_each(|reason| counts.add(*reason, 1));
        }
        counts.add(Reason::DisruptionBudget, self.tried.refused.len() as u32);
        let n_others = self.plan.n_nodes() - self.resolvable.len();
        counts.add(Reason::PreemptionNotHelpful, n_others as u32);
        from_counts(self.plan, &counts).message
    }

    fn not_helped(&self) -> Vec<NodeVerdict> {
        let tried = self.tried.not_helped.iter();
        let tried = tried.filter_map(|(row, why)| Some((*row, self.refusal(*row, *why)?)));
        let refused = |row: &NodeRow| (*row, (None, Refusal::of(Reason::DisruptionBudget)));
        let refused = self.tried.refused.iter().map(refused);
        let verdict =
            |(row, (plugin, refusal)): (NodeRow, (Option<Plugin>, Refusal))| NodeVerdict {
                node: name(self.plan.snapshot(), row),
                verdict: rejected(self.plan.names(), plugin, &refusal),
            };
        tried.chain(refused).map(verdict).collect()
    }

    fn refusal(&self, row: NodeRow, why: WhyNot) -> Option<(Option<Plugin>, Refusal)> {
        match why {
            WhyNot::NoVictims => Some((None, Refusal::of(Reason::NoVictims))),
            WhyNot::NoHelp => {
                let (plugin, refusal) = self.search.refusal(row)?;
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
