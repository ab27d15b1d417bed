//! Feasible: the rows that every filter passes.

use crate::rows::{NodeRow, RowSet};

/// Feasible rows of every shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feasible {
    rows: Vec<RowSet>,
    n_rows: u32,
}

impl FromIterator<RowSet> for Feasible {
    fn from_iter<I: IntoIterator<Item = RowSet>>(shards: I) -> Feasible {
        let rows: Vec<RowSet> = shards.into_iter().collect();
        let n_rows = rows.iter().map(RowSet::len).sum();
        Feasible { rows, n_rows }
    }
}

impl Feasible {
    /// One row alone.
    pub(crate) fn only(row: NodeRow, n_shards: usize) -> Feasible {
        (0..n_shards).map(|shard| row.of_shard(shard)).collect()
    }

    /// In the shards' order.
    pub(crate) fn by_shard(&self) -> &[RowSet] {
        &self.rows
    }

    pub(crate) fn len(&self) -> u32 {
        self.n_rows
    }

    /// The first row. There must be one.
    pub(crate) fn first(&self) -> NodeRow {
        let mut shards = self.rows.iter().enumerate();
        let found = shards.find_map(|(shard, rows)| Some((shard, rows.iter().next()?)));
        let (shard, row) = found.unwrap_or_default();
        NodeRow::new(shard, row)
    }
}
