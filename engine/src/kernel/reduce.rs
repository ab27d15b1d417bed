//! Reduce: the extremes of a column and who holds a value.

use super::pack::pack_where;
use crate::rows::{ROWS, RowSet};

#[inline(always)]
pub(super) fn max_of(values: &[i32; ROWS], rows: &RowSet) -> i32 {
    keep(values, rows, i32::MIN).into_iter().fold(i32::MIN, i32::max)
}

#[inline(always)]
pub(super) fn min_of(values: &[i32; ROWS], rows: &RowSet) -> i32 {
    keep(values, rows, i32::MAX).into_iter().fold(i32::MAX, i32::min)
}

/// The values of `rows`, and `other` for the others.
#[inline(always)]
fn keep(values: &[i32; ROWS], rows: &RowSet, other: i32) -> [i32; ROWS] {
    let mut kept = [other; ROWS];
    let chunks = kept.as_chunks_mut::<64>().0.iter_mut().zip(values.as_chunks::<64>().0);
    for ((kept, values), word) in chunks.zip(rows.0) {
        match word {
            0 => {}
            u64::MAX => *kept = *values,
            _ => {
                for bit in 0..64 {
                    kept[bit] = if word >> bit & 1 == 1 { values[bit] } else { other };
                }
            }
        }
    }
    kept
}

#[inline(always)]
pub(super) fn rows_equal(values: &[i32; ROWS], rows: &RowSet, value: i32) -> RowSet {
    pack_where(rows, |row| values[row] == value)
}

#[inline(always)]
pub(super) fn rows_positive(values: &[i32; ROWS], rows: &RowSet) -> RowSet {
    pack_where(rows, |row| values[row] > 0)
}

#[inline(always)]
pub(super) fn rows_above(versions: &[u64; ROWS], version: u64) -> RowSet {
    pack_where(&RowSet::FULL, |row| versions[row] > version)
}
