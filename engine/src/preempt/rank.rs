//! Rank: which eviction is best. Rule: S-PRE-19.

use std::cmp::Reverse;

use crate::snapshot::pod_table::PlacedPod;

/// Criteria by which evictions are compared, in this order; the smallest rank is best.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank {
    pub(super) n_violations: u32,
    /// Number of victims that could not be placed anywhere; 0 unless compared (`VictimPlacement::Prefer`).
    pub(super) n_homeless: u32,
    /// Priority of the most important victim.
    pub(super) highest: i32,
    /// Sum of the victims' priorities, each shifted to be ≥ 0, so that more victims are usually worse.
    sum: i64,
    n_victims: usize,
    /// Earliest start among the victims of the highest priority.
    earliest: Reverse<i64>,
}

impl Rank {
    /// Whether an eviction whose most important victim has this priority can only be worse.
    pub(super) fn is_below(&self, priority: i32) -> bool {
        self.n_violations == 0 && self.n_homeless == 0 && self.highest < priority
    }

    /// The rank of an eviction; `victims` are positions in `pods`, the most important first, not empty.
    pub(super) fn of(victims: &[u32], pods: &[PlacedPod], n_violations: u32) -> Rank {
        let victims = || victims.iter().map(|at| &pods[*at as usize]);
        let priority = |placed: &PlacedPod| placed.shape.facts.priority;
        let highest = victims().next().map_or(i32::MIN, priority);
        let most_important = victims().filter(|placed| priority(placed) == highest);
        Rank {
            n_violations,
            n_homeless: 0,
            highest,
            sum: victims().map(|placed| i64::from(priority(placed)) + (1 << 31)).sum(),
            n_victims: victims().count(),
            earliest: Reverse(most_important.map(|placed| placed.start_time).min().unwrap_or(0)),
        }
    }
}
