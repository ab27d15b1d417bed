//! Tie: the seeded order of nodes with equal totals. Rule: S-SEL-4 (policy).

use std::ops::Range;

use super::pack::pack_where;
use crate::hash::hash_text;
use crate::rows::{ROWS, RowSet};

/// The request's part of every node's tie key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct TieKey(u32);

impl TieKey {
    /// The key of a seed and a pod's uid.
    pub(crate) fn new(seed: u64, uid: &str) -> TieKey {
        TieKey(hash_text(uid, seed))
    }

    /// A node's position in the order: the largest wins.
    #[inline(always)]
    pub(crate) fn of(self, name_hash: u32) -> u32 {
        let mut x = (name_hash ^ self.0).wrapping_mul(FIRST);
        x ^= x >> 15;
        x = x.wrapping_mul(SECOND);
        x ^ x >> 13
    }

    /// The groups of hashes in the order of a choice among many: the first one that has any decides.
    pub(crate) fn groups(self) -> impl Iterator<Item = TieGroup> {
        let first = self.0 % N_GROUPS;
        (0..N_GROUPS).map(move |group| TieGroup::of((group ^ first) << GROUP_SHIFT))
    }

    /// The hash of the name with a position: distinct hashes have distinct positions.
    pub(crate) fn hash_of(self, place: u32) -> u32 {
        let mut x = place ^ place >> 13 ^ place >> 26;
        x = x.wrapping_mul(inverse(SECOND));
        x ^= x >> 15 ^ x >> 30;
        x.wrapping_mul(inverse(FIRST)) ^ self.0
    }
}

/// Number of groups of name hashes, a power of two. With [`MANY_TIED`] rows some 64 of them are in each group, so that
/// every row is chosen nearly as often as any other.
pub(crate) const N_GROUPS: u32 = 32;

/// The least number of tied rows of which the choice looks at one group only.
pub(crate) const MANY_TIED: u32 = 2_048;

const GROUP_SHIFT: u32 = u32::BITS - N_GROUPS.trailing_zeros();

/// Hashes of names that have the same highest bits, or all hashes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct TieGroup {
    mask: u32,
    bits: u32,
}

impl TieGroup {
    /// All hashes.
    pub(crate) const ALL: TieGroup = TieGroup { mask: 0, bits: 0 };

    /// The group of a hash.
    #[inline(always)]
    pub(crate) fn of(name_hash: u32) -> TieGroup {
        let mask = u32::MAX << GROUP_SHIFT;
        TieGroup { mask, bits: name_hash & mask }
    }

    /// Its number, below [`N_GROUPS`].
    pub(crate) fn index(self) -> usize {
        (self.bits >> GROUP_SHIFT) as usize
    }

    #[inline(always)]
    pub(crate) fn has(self, name_hash: u32) -> bool {
        name_hash & self.mask == self.bits
    }
}

const FIRST: u32 = 0x9e37_79b1;
const SECOND: u32 = 0x85eb_ca77;

/// The inverse of an odd number modulo 2³²: each step of Newton's method doubles the number of correct bits.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut step = 0;
    while step < 4 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

/// Number of rows processed at a time.
const LANES: usize = 16;

#[inline(always)]
pub(super) fn max_tie_key(
    hashes: &[u32; ROWS],
    rows: &RowSet,
    key: TieKey,
    group: TieGroup,
) -> u32 {
    let mut best = [0; LANES];
    for (i, hashes) in hashes.as_chunks::<LANES>().0.iter().enumerate() {
        let bits = (rows.0[i * LANES / 64] >> (i * LANES % 64)) as u32 & 0xffff;
        if bits == 0 {
            continue;
        }
        for lane in 0..LANES {
            let is_row = 0_u32.wrapping_sub(bits >> lane & 1);
            let is_in_group = if group.has(hashes[lane]) { u32::MAX } else { 0 };
            best[lane] = best[lane].max(key.of(hashes[lane]) & is_row & is_in_group);
        }
    }
    best.into_iter().fold(0, u32::max)
}

#[inline(always)]
pub(super) fn rows_of_tie_key(
    hashes: &[u32; ROWS],
    rows: &RowSet,
    key: TieKey,
    value: u32,
) -> RowSet {
    pack_where(rows, |row| key.of(hashes[row]) == value)
}

/// Number of hashes of which the highest key is found before it is compared.
const BLOCK: usize = 512;

/// The largest key of some hashes, and a range that has all of its positions.
#[inline(always)]
pub(super) fn highest_tied(hashes: &[u32], key: TieKey) -> (u32, Range<usize>) {
    let (mut highest, mut range) = (0, 0..hashes.len());
    for (i, block) in hashes.chunks(BLOCK).enumerate() {
        let mut of_block = 0;
        for hash in block {
            of_block = of_block.max(key.of(*hash));
        }
        let end = i * BLOCK + block.len();
        if of_block > highest {
            (highest, range) = (of_block, i * BLOCK..end);
        } else if of_block == highest {
            range.end = end;
        }
    }
    (highest, range)
}

#[inline(always)]
pub(super) fn position_of(hashes: &[u32], hash: u32, from: usize) -> Option<usize> {
    let (chunks, rest) = hashes.get(from..)?.as_chunks::<64>();
    let is_in = |chunk: &[u32; 64]| {
        let mut found = 0;
        for other in chunk {
            found |= u32::from(*other == hash);
        }
        found != 0
    };
    let (at, chunk) = match chunks.iter().position(is_in) {
        Some(i) => (from + i * 64, &chunks[i][..]),
        None => (from + chunks.len() * 64, rest),
    };
    Some(at + chunk.iter().position(|other| *other == hash)?)
}
