//! The floor: the least work that reads the same data as a placement, a divisor for the results of other benches.

use std::hint::black_box;

/// The columns that placing a plain pod streams: allocatable CPU and memory and their inverses, requested and non-zero
/// requested CPU and memory, their balance, allowed and running pods.
const N_COLUMNS: usize = 11;

/// Columns of 64-bit integers, one value a node.
pub(crate) struct Floor(Vec<Vec<i64>>);

impl Floor {
    /// Returns columns for this number of nodes.
    pub(crate) fn new(n_nodes: usize) -> Floor {
        let rows = n_nodes.next_multiple_of(256);
        Floor(
            (0..N_COLUMNS)
                .map(|column| (0..rows).map(|row| (row * 31 + column) as i64).collect())
                .collect(),
        )
    }

    /// Reads every value once.
    pub(crate) fn stream(&self) -> i64 {
        self.0
            .iter()
            .map(|column| {
                black_box(column).iter().fold(0_i64, |sum, value| sum.wrapping_add(*value))
            })
            .sum()
    }
}
