//! Pack: the rows for which a condition holds, as bits.

use crate::rows::{ROWS, RowSet, WORDS};

/// Number of rows of a word.
const BITS: usize = ROWS / WORDS;

/// The rows among `rows` for which a condition holds. It may be evaluated for other rows, too.
#[inline(always)]
pub(super) fn pack_where(rows: &RowSet, holds: impl Fn(usize) -> bool) -> RowSet {
    let mut words = [0; WORDS];
    for (i, word) in words.iter_mut().enumerate() {
        if rows.0[i] == 0 {
            continue;
        }
        let mut holding = [0_u8; BITS];
        for bit in 0..BITS {
            holding[bit] = u8::from(holds(i * BITS + bit));
        }
        for (j, bytes) in holding.as_chunks::<8>().0.iter().enumerate() {
            // The multiplication gathers the lowest bits of eight bytes in the top byte.
            let bits = u64::from_le_bytes(*bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            *word |= bits << (j * 8);
        }
        *word &= rows.0[i];
    }
    RowSet(words)
}
