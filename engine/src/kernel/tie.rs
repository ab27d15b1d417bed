//! Tie: the seeded order of nodes with equal totals. Rule: S-SEL-4 (policy).

use crate::snapshot::ROWS;
use crate::snapshot::row_set::RowSet;

/// What a request contributes to every node's key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct TieKey(u32);

impl TieKey {
    /// Of a seed and a pod's uid.
    pub(crate) fn new(seed: u64, uid: &str) -> TieKey {
        let hash = fnv1a(uid.as_bytes(), seed);
        TieKey((hash ^ hash >> 32) as u32)
    }

    /// A node's place in the order: the largest wins.
    #[inline(always)]
    pub(crate) fn of(self, name_hash: u32) -> u32 {
        let mut x = (name_hash ^ self.0).wrapping_mul(0x9e37_79b1);
        x ^= x >> 15;
        x = x.wrapping_mul(0x85eb_ca77);
        x ^ x >> 13
    }
}

/// Hash of a node's name, the same on every machine and in every version.
pub(crate) fn hash_name(name: &str) -> u32 {
    let hash = fnv1a(name.as_bytes(), 0);
    (hash ^ hash >> 32) as u32
}

/// FNV-1a over the bytes, with a finisher so that short names spread over all bits.
fn fnv1a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ hash >> 32
}

#[inline(always)]
pub(super) fn max_tie_key(hashes: &[u32; ROWS], rows: &RowSet, key: TieKey) -> u32 {
    let mut best = 0;
    for (chunk, word) in hashes.as_chunks::<64>().0.iter().zip(rows.0) {
        for (bit, hash) in chunk.iter().enumerate() {
            let candidate = if word >> bit & 1 == 1 { key.of(*hash) } else { 0 };
            best = best.max(candidate);
        }
    }
    best
}
