//! Ties: the name hashes of the best rows in one column, so that the seeded choice among them reads nothing else.
//!
//! This pays off for many decisions of one kind in a row: their best rows are those of the last time, perhaps without
//! one. Any other change is detected, and the hashes are collected again after several decisions without one.

use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// The best rows by shard; a shard without any is not listed.
pub(crate) type BestRows = Vec<(usize, RowSet)>;

/// Number of decisions in a row with nearly the same best rows after which the hashes are collected: that costs as much as
/// several choices without them.
pub(super) const N_STEADY: u32 = 8;

/// Cached data on the best rows of an evaluation.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// How the best rows differ from those of the last time.
    change: Change,
    /// A hash for each row, unordered; empty until hashes are collected.
    hashes: Vec<u32>,
    rows: Vec<NodeRow>,
    /// Position of the row that was chosen last.
    chosen: usize,
    /// Number of decisions with nearly the same best rows, up to now.
    n_steady: u32,
}

/// How the best rows differ from those of the last time.
#[derive(Copy, Clone, Debug, Default)]
enum Change {
    #[default]
    None,
    /// Only this row left.
    Left(NodeRow),
    /// There are other changes.
    Other,
}

impl Ties {
    /// Notes that other rows of a shard are the best ones than before.
    pub(crate) fn note(&mut self, shard: usize, then: &RowSet, now: &RowSet) {
        if then == now {
            return;
        }
        let left = then.without(now);
        let is_one = left.len() == 1 && now.len() + 1 == then.len();
        self.change = match (self.change, left.iter().next()) {
            (Change::None, Some(row)) if is_one => Change::Left(NodeRow::new(shard, row)),
            _ => Change::Other,
        };
    }

    /// Notes that the best rows may hold other nodes, or are others altogether.
    pub(crate) fn disturb(&mut self) {
        self.change = Change::Other;
    }

    /// The hashes and the rows, if they are cached and up to date.
    pub(crate) fn take_in(&mut self, best: &BestRows, snapshot: &Snapshot) -> Option<Tied<'_>> {
        match std::mem::take(&mut self.change) {
            Change::None => {}
            Change::Left(row) => self.remove(row),
            Change::Other => {
                self.hashes.clear();
                self.rows.clear();
                self.n_steady = 0;
                return None;
            }
        }
        self.n_steady = self.n_steady.saturating_add(1);
        if self.rows.is_empty() {
            if self.n_steady < N_STEADY {
                return None;
            }
            self.gather(best, snapshot);
        }
        debug_assert_eq!(
            self.rows.len(),
            best.iter().map(|(_, rows)| rows.len() as usize).sum::<usize>(),
            "every best row is cached"
        );
        Some(Tied { hashes: &self.hashes, rows: &self.rows, chosen: &mut self.chosen })
    }

    /// Removes the hash of a row, if hashes are there; mostly it is the row that was chosen last.
    fn remove(&mut self, row: NodeRow) {
        let at = match self.rows.get(self.chosen) {
            Some(chosen) if *chosen == row => Some(self.chosen),
            _ => self.rows.iter().position(|known| *known == row),
        };
        if let Some(at) = at {
            self.hashes.swap_remove(at);
            self.rows.swap_remove(at);
        }
    }

    fn gather(&mut self, best: &BestRows, snapshot: &Snapshot) {
        for (shard, rows) in best {
            let of_shard = &snapshot.shards[*shard].nodes.name_hash;
            self.hashes.extend(rows.iter().map(|row| of_shard[row]));
            self.rows.extend(rows.iter().map(|row| NodeRow::new(*shard, row)));
        }
    }
}

/// The best rows and the hashes of their names, in the same order.
pub(crate) struct Tied<'a> {
    pub(crate) hashes: &'a [u32],
    pub(crate) rows: &'a [NodeRow],
    /// To be set to the position of the chosen row.
    pub(crate) chosen: &'a mut usize,
}
