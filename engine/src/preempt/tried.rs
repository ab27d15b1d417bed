//! Tried: the results on the nodes that a search tried.

use std::cmp::Ordering;

use super::eviction::Eviction;
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
}
