//! Reduce: the extremes of a column and who holds a value.

use super::fit::pack;
use crate::rows::{ROWS, RowSet};

#[inline(always)]
pub(super) fn max_of(values: &[i32; ROWS], rows: &RowSet) -> i32 {
    let mut best = i32::MIN;
    for (chunk, word) in values.as_chunks::<64>().0.iter().zip(rows.0) {
        for (bit, value) in chunk.iter().enumerate() {
            let candidate = if word >> bit & 1 == 1 { *value } else { i32::MIN };
            best = best.max(candidate);
        }
    }
    best
}

#[inline(always)]
pub(super) fn min_of(values: &[i32; ROWS], rows: &RowSet) -> i32 {
    let mut best = i32::MAX;
    for (chunk, word) in values.as_chunks::<64>().0.iter().zip(rows.0) {
        for (bit, value) in chunk.iter().enumerate() {
            let candidate = if word >> bit & 1 == 1 { *value } else { i32::MAX };
            best = best.min(candidate);
        }
    }
    best
}

#[inline(always)]
pub(super) fn rows_equal(values: &[i32; ROWS], rows: &RowSet, value: i32) -> RowSet {
    let mut equal = [0_u8; ROWS];
    for row in 0..ROWS {
        equal[row] = u8::from(values[row] == value);
    }
    let mut set = pack(&equal);
    set.intersect(rows);
    set
}

#[inline(always)]
pub(super) fn rows_above(versions: &[u64; ROWS], version: u64) -> RowSet {
    let mut above = [0_u8; ROWS];
    for row in 0..ROWS {
        above[row] = u8::from(versions[row] > version);
    }
    pack(&above)
}
