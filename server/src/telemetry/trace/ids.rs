//! Ids of spans and traces that begin here. They need to be distinct, not secret.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A step that visits every number once before the first returns.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of ids with a random start.
pub(super) struct Ids(AtomicU64);

impl Ids {
    pub(super) fn new() -> Ids {
        // The standard library seeds each of these at random.
        Ids(AtomicU64::new(RandomState::new().hash_one(std::process::id())))
    }

    /// The next number, evenly distributed.
    pub(super) fn any(&self) -> u64 {
        // The finaliser of SplitMix64.
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A span id. Never 0, which stands for no span.
    pub(super) fn span(&self) -> u64 {
        match self.any() {
            0 => self.any(),
            id => id,
        }
    }

    /// A trace id. Never 0.
    pub(super) fn trace(&self) -> u128 {
        u128::from(self.any()) << 64 | u128::from(self.span())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_distinct() {
        let ids = Ids::new();
        let drawn: HashSet<u64> = (0..10_000).map(|_| ids.span()).collect();
        assert_eq!(drawn.len(), 10_000);
        assert_ne!(Ids::new().trace(), Ids::new().trace());
    }
}
