//! Tried: the results on the nodes that a search tried.

use std::cmp::Ordering;

use super::eviction::Eviction;
use super::known_rows::RowResult;
use super::rank::Rank;
use crate::rows::NodeRow;

/// Results on the nodes that were tried.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// Evictions of the best rank, in the nodes' order; all evictions, where requested.
    pub(super) evictions: Vec<Eviction>,
    pub(super) n_candidates: u32,
    /// Whether some eviction violates no budget.
    pub(super) has_harmless: bool,
    /// Nodes whose eviction was left out because it violates a budget.
    pub(super) refused: Vec<NodeRow>,
    /// Nodes that need no eviction and yet are not feasible (S-PRE-15).
    pub(super) errors: Vec<NodeRow>,
    pub(super) not_helped: Vec<(NodeRow, WhyNot)>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum WhyNot {
    NoVictims,
    NoHelp,
}

impl Tried {
    /// Adds one eviction; evictions are added in the nodes' order.
    pub(super) fn take(&mut self, eviction: &Eviction, keeps_all: bool) {
        self.n_candidates += 1;
        if !keeps_all && let Some(best) = self.evictions.first() {
            match eviction.rank.cmp(&best.rank) {
                Ordering::Less => self.evictions.clear(),
                Ordering::Equal => {}
                Ordering::Greater => return,
            }
        }
        self.evictions.push(eviction.clone());
    }

    /// Adds the results of later nodes.
    pub(super) fn join(&mut self, later: &Tried, keeps_all: bool) {
        let n_candidates = self.n_candidates + later.n_candidates;
        later.evictions.iter().for_each(|eviction| self.take(eviction, keeps_all));
        self.n_candidates = n_candidates;
        self.refused.extend(&later.refused);
        self.errors.extend(&later.errors);
        self.not_helped.extend(&later.not_helped);
    }

    /// Adds the result on a node, of which `best` has the evictions.
    pub(super) fn note(&mut self, row: NodeRow, result: RowResult, best: &mut BestRows) {
        match result {
            RowResult::Evicts(rank) => {
                self.has_harmless |= rank.n_violations == 0;
                self.n_candidates += 1;
                best.take(row, rank);
            }
            RowResult::NoVictims => self.not_helped.push((row, WhyNot::NoVictims)),
            RowResult::NoHelp => self.not_helped.push((row, WhyNot::NoHelp)),
            RowResult::NobodyToEvict => self.errors.push(row),
        }
    }
}

/// The nodes whose evictions have the best rank, in the order in which they were tried.
#[derive(Debug, Default)]
pub(super) struct BestRows {
    rank: Option<Rank>,
    rows: Vec<NodeRow>,
}

impl BestRows {
    fn take(&mut self, row: NodeRow, rank: Rank) {
        match self.rank.map(|best| rank.cmp(&best)) {
            Some(Ordering::Greater) => return,
            Some(Ordering::Equal) => {}
            Some(Ordering::Less) | None => {
                self.rank = Some(rank);
                self.rows.clear();
            }
        }
        self.rows.push(row);
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = NodeRow> + '_ {
        self.rows.iter().copied()
    }
}
