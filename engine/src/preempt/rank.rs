//! Rank: which eviction is best. Rule: S-PRE-19.

use std::cmp::Reverse;

use crate::snapshot::placed_pod::PlacedPod;

/// Criteria by which evictions are compared, in this order; the smallest rank is best.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
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

/// Added to each priority, so that none is below 0.
const SHIFT: i64 = 1 << 31;

impl Rank {
    /// Whether an eviction whose most important victim has this priority can only be worse.
    pub(super) fn is_below(&self, priority: i32) -> bool {
        self.n_violations == 0 && self.n_homeless == 0 && self.highest < priority
    }

    /// Adds victims of one priority to a rank, lower than that of those before; `earliest` is the first of their start
    /// times.
    pub(super) fn add(&mut self, priority: i32, n_victims: usize, earliest: i64) {
        if self.n_victims == 0 {
            (self.highest, self.earliest) = (priority, Reverse(earliest));
        }
        self.sum += (i64::from(priority) + SHIFT) * n_victims as i64;
        self.n_victims += n_victims;
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
            sum: victims().map(|placed| i64::from(priority(placed)) + SHIFT).sum(),
            n_victims: victims().count(),
            earliest: Reverse(most_important.map(|placed| placed.start_time).min().unwrap_or(0)),
        }
    }
}
