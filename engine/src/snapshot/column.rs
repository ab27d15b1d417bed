//! Column: one value a row, aligned to a cache line, of a length that kernels know at compile time.

use std::ops::{Index, IndexMut};

use super::ROWS;

/// One `T` for each row of a shard. Rows without a node hold the default.
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
