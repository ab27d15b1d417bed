//! Ranking: the highest total and the rows that have it.

use super::ties::{Tied, Ties};
use crate::rows::RowSet;
use crate::snapshot::Snapshot;

/// The best rows of all shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    total: i32,
    rows: BestRows,
    ties: Ties,
}

/// Rows by shard; none for a shard that has none.
pub(crate) type BestRows = Vec<(usize, RowSet)>;

impl Ranking {
    /// Forgets every row.
    pub(crate) fn clear(&mut self) {
        self.total = i32::MIN;
        self.rows.clear();
    }

    /// Takes in the best rows of one more shard.
    pub(crate) fn add(&mut self, shard: usize, total: i32, rows: RowSet) {
        if total > self.total {
            self.total = total;
            self.rows.clear();
        }
        if total == self.total {
            self.rows.push((shard, rows));
        }
    }

    pub(crate) fn total(&self) -> i64 {
        i64::from(self.total)
    }

    pub(crate) fn n_rows(&self) -> u32 {
        self.rows.iter().map(|(_, rows)| rows.len()).sum()
    }

    /// The rows, by shard.
    pub(crate) fn rows(&self) -> &[(usize, RowSet)] {
        &self.rows
    }

    /// The rows with the hashes of their names, where those are at hand from choosing among nearly the same before.
    pub(crate) fn tied(&mut self, snapshot: &Snapshot) -> Option<Tied<'_>> {
        self.ties.take_in(&self.rows, snapshot)
    }
}
