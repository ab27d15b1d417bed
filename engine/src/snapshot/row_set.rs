//! RowSet: one bit a row of a shard.

use super::{ROWS, WORDS};

/// Fewer rows than this are worked on one by one.
pub(crate) const FEW: u32 = 16;

/// A set of rows of one shard.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub(crate) struct RowSet(pub(crate) [u64; WORDS]);

impl RowSet {
    pub(crate) const EMPTY: RowSet = RowSet([0; WORDS]);

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

#[cfg(test)]
mod tests {
    use super::*;

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
