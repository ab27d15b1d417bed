//! Ids of the snapshot: newtypes, so that one cannot be passed for another.

use std::fmt;

use super::row_set::RowSet;

/// Position of a node: shard and row within it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeRow(u32);

impl NodeRow {
    /// The first of all.
    pub(crate) const FIRST: NodeRow = NodeRow(0);

    pub(crate) fn new(shard: usize, row: usize) -> NodeRow {
        NodeRow((shard * super::ROWS + row) as u32)
    }

    /// Position among all rows.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn shard(self) -> usize {
        self.0 as usize / super::ROWS
    }

    /// This row alone, where it is of the shard.
    pub(crate) fn of_shard(self, shard: usize) -> RowSet {
        (self.shard() == shard).then_some(self.row()).into_iter().collect()
    }

    pub(crate) fn row(self) -> usize {
        self.0 as usize % super::ROWS
    }
}

/// Number of a published snapshot; later ones are larger.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Generation(pub(crate) u64);

impl Generation {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
