//! Ranking: the rows that pass every filter, and those of them with the highest total.

use super::ties::{BestRows, Tied, Ties};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// The rows that pass every filter, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Feasible {
    rows: Vec<RowSet>,
    n_rows: u32,
    first: NodeRow,
}

impl Feasible {
    /// The feasible rows of every shard, in the shards' order; `None` if there are none.
    pub(crate) fn of(shards: impl IntoIterator<Item = RowSet>) -> Option<Feasible> {
        let rows: Vec<RowSet> = shards.into_iter().collect();
        let first_of =
            |(shard, rows): (usize, &RowSet)| Some(NodeRow::new(shard, rows.iter().next()?));
        let first = rows.iter().enumerate().find_map(first_of)?;
        let n_rows = rows.iter().map(RowSet::len).sum();
        Some(Feasible { rows, n_rows, first })
    }

    /// A single feasible row.
    pub(crate) fn only(row: NodeRow, n_shards: usize) -> Feasible {
        debug_assert!(row.shard() < n_shards, "the row is in a shard");
        let rows = (0..n_shards).map(|shard| row.of_shard(shard)).collect();
        Feasible { rows, n_rows: 1, first: row }
    }

    /// The feasible rows of each shard, in the shards' order.
    pub(crate) fn by_shard(&self) -> &[RowSet] {
        &self.rows
    }

    pub(crate) fn len(&self) -> u32 {
        self.n_rows
    }

    pub(crate) fn first(&self) -> NodeRow {
        self.first
    }
}

/// The best rows of all shards.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    total: i32,
    rows: BestRows,
    ties: Ties,
}

impl Ranking {
    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.total = i32::MIN;
        self.rows.clear();
    }

    /// Adds the best rows of another shard.
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

    /// The rows with the hashes of their names, where these are cached from choosing among nearly the same rows before.
    pub(crate) fn tied(&mut self, snapshot: &Snapshot) -> Option<Tied<'_>> {
        self.ties.take_in(&self.rows, snapshot)
    }
}
