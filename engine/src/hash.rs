//! Hash: 32 bits of a text, the same on every machine and in every version, because placements must be reproducible.

/// The hash of a node's name.
pub(crate) fn hash_name(name: &str) -> u32 {
    hash_text(name, 0)
}

/// The hash of a text under a seed: FNV-1a over the bytes, with a finisher so that short texts spread over all bits.
pub(crate) fn hash_text(text: &str, seed: u64) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in text.as_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^= hash >> 32;
    (hash ^ hash >> 32) as u32
}
