//! Rows: the dense positions of nodes, and data kept by row; the basis of the model, the kernels and the snapshot.
//!
//! A snapshot keeps its nodes in shards of [`ROWS`] rows. A [`NodeRow`] is the position of one node, a [`RowSet`] a
//! bitmap of rows, and a [`Column`] has one value for each row of a shard.

use std::ops::{Index, IndexMut};

/// Number of rows of a shard. A change of one node copies and re-evaluates a whole shard, which favours few rows; scans
/// visit each shard, which favours many.
pub(crate) const ROWS: usize = 256;
/// Number of words of a bitmap over a shard.
pub(crate) const WORDS: usize = ROWS / 64;
const _: () = assert!(ROWS.is_multiple_of(64));

/// Below this number, rows are processed one by one.
pub(crate) const FEW: u32 = 16;

/// Position of a node: shard and row within it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeRow(u32);

impl NodeRow {
    /// The very first row.
    pub(crate) const FIRST: NodeRow = NodeRow(0);

    pub(crate) fn new(shard: usize, row: usize) -> NodeRow {
        NodeRow((shard * ROWS + row) as u32)
    }

    /// Position among all rows.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn shard(self) -> usize {
        self.0 as usize / ROWS
    }

    /// A set of this row alone, if the row belongs to the shard; else empty.
    pub(crate) fn of_shard(self, shard: usize) -> RowSet {
        (self.shard() == shard).then_some(self.row()).into_iter().collect()
    }

    pub(crate) fn row(self) -> usize {
        self.0 as usize % ROWS
    }
}

/// A set of rows of one shard.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub(crate) struct RowSet(pub(crate) [u64; WORDS]);

impl RowSet {
    pub(crate) const EMPTY: RowSet = RowSet([0; WORDS]);
    pub(crate) const FULL: RowSet = RowSet([u64::MAX; WORDS]);

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, row: usize) {
        self.0[row / 64] |= 1 << (row % 64);
    }

    pub(crate) fn remove(&mut self, row: usize) {
        self.0[row / 64] &= !(1 << (row % 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn union(&mut self, other: &RowSet) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    pub(crate) fn intersect(&mut self, other: &RowSet) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= other;
        }
    }

    pub(crate) fn subtract(&mut self, other: &RowSet) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= !other;
        }
    }

    /// The rows of `self` that are not in `other`.
    pub(crate) fn without(mut self, other: &RowSet) -> RowSet {
        self.subtract(other);
        self
    }

    /// Rows in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for RowSet {
    fn from_iter<I: IntoIterator<Item = usize>>(rows: I) -> RowSet {
        let mut set = RowSet::EMPTY;
        for row in rows {
            debug_assert!(row < ROWS);
            set.insert(row);
        }
        set
    }
}

/// One `T` for each row of a shard, aligned to a cache line, with a length known at compile time. Rows without a node
/// hold the default.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub(crate) struct Column<T>(pub(crate) [T; ROWS]);

impl<T: Copy + Default> Default for Column<T> {
    fn default() -> Column<T> {
        Column([T::default(); ROWS])
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;

    fn index(&self, row: usize) -> &T {
        &self.0[row]
    }
}

impl<T> IndexMut<usize> for Column<T> {
    fn index_mut(&mut self, row: usize) -> &mut T {
        &mut self.0[row]
    }
}

/// The column of a key in a list, added if missing.
pub(crate) fn column_of<K: PartialEq>(
    columns: &mut Vec<(K, Box<Column<i64>>)>,
    key: K,
) -> &mut Column<i64> {
    let at = match columns.iter().position(|(known, _)| *known == key) {
        Some(at) => at,
        None => {
            columns.push((key, Box::default()));
            columns.len() - 1
        }
    };
    &mut columns[at].1
}

#[cfg(test)]
mod tests {
    use crate::rows::*;

    #[test]
    fn set_operations() {
        let a: RowSet = [0, 63, 64, 255].into_iter().collect();
        let b: RowSet = [63, 100].into_iter().collect();
        assert_eq!(a.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!(a.len(), 4);
        assert_eq!(a.without(&b).iter().collect::<Vec<_>>(), [0, 64, 255]);
        let mut union = a;
        union.union(&b);
        assert_eq!(union.len(), 5);
        let mut both = a;
        both.intersect(&b);
        assert_eq!(both.iter().collect::<Vec<_>>(), [63]);
        union.remove(63);
        assert!(!union.contains(63) && union.contains(100));
        assert!(RowSet::EMPTY.is_empty() && RowSet::EMPTY.iter().next().is_none());
    }
}
