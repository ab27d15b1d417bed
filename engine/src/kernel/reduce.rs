//! Reduce: the best value of a column and who holds it.

use super::fit::pack;
use crate::snapshot::ROWS;
use crate::snapshot::row_set::RowSet;

#[inline(always)]
pub(super) fn max_of(values: &[i32; ROWS], rows: &RowSet) -> i32 {
    let mut best = [i32::MIN; LANES];
    for (group, chunk) in values.as_chunks::<LANES>().0.iter().enumerate() {
        let keep = masks(rows, group);
        for lane in 0..LANES {
            let candidate = (chunk[lane] & keep[lane]) | (i32::MIN & !keep[lane]);
            best[lane] = best[lane].max(candidate);
        }
    }
    best.into_iter().fold(i32::MIN, i32::max)
}

/// Rows that are handled at once.
pub(super) const LANES: usize = 8;

/// For each row of a group of [`LANES`]: all ones if it is in the set, else 0.
#[inline(always)]
pub(super) fn masks(rows: &RowSet, group: usize) -> [i32; LANES] {
    let byte = (rows.0[group * LANES / 64] >> (group * LANES % 64)) as i32;
    std::array::from_fn(|lane| (byte >> lane & 1).wrapping_neg())
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
