//! Recent: values that were compiled from messages, by the messages' encodings. A message that comes again costs a
//! fraction of compiling it. The number and the bytes of the values are bounded, and no result depends on which are
//! there.
//!
//! The fields of two messages, compared one by one, take several times as long as their encodings: most are empty, and
//! the processor takes its time to compare no bytes at no address.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

/// Number of values that are remembered at most, and of bytes that they take, about.
pub(crate) const MAX_VALUES: usize = 1_024;
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Number of bytes of one of them at most: what is larger is made each time.
pub(crate) const MAX_VALUE_BYTES: usize = MAX_BYTES / 16;
/// Number of encodings that are known to have come once.
const N_SEEN: usize = 4_096;

/// Values by the encodings of what they were made of. Usable from any number of threads.
///
/// A value is remembered when its encoding comes for the second time, so that messages which are all different cost no
/// more than being looked up.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    known: DashMap<Box<[u8]>, V, FxBuildHasher>,
    /// Hashes of encodings that came once, each in the place that it has.
    seen: Box<[AtomicU64]>,
    /// About as many bytes as the known values take. Locked by whoever adds one.
    n_bytes: Mutex<usize>,
}

impl<V> Default for Recent<V> {
    fn default() -> Recent<V> {
        let seen = (0..N_SEEN).map(|_| AtomicU64::new(0)).collect();
        Recent { known: DashMap::default(), seen, n_bytes: Mutex::default() }
    }
}

impl<V: Clone> Recent<V> {
    /// The value compiled from the message of this encoding, if it is remembered.
    pub(crate) fn get(&self, encoded: &[u8]) -> Option<V> {
        Some(self.known.get(encoded)?.clone())
    }

    /// Remembers a value of about `n_bytes`, if its encoding came before.
    pub(crate) fn note(&self, encoded: &[u8], value: &V, n_bytes: usize) {
        let hash = FxBuildHasher.hash_one(encoded);
        let place = usize::try_from(hash % N_SEEN as u64).unwrap_or(0);
        let last = self.seen.get(place).map(|seen| seen.swap(hash, Ordering::Relaxed));
        if last != Some(hash) || n_bytes > MAX_VALUE_BYTES {
            return;
        }
        let mut n_known_bytes = self.n_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *n_known_bytes + n_bytes > MAX_BYTES || self.known.len() >= MAX_VALUES {
            // All are forgotten: those that are still asked for are remembered again.
            self.known.clear();
            *n_known_bytes = 0;
        }
        if self.known.insert(encoded.into(), value.clone()).is_none() {
            *n_known_bytes += n_bytes;
        }
    }

    /// Number of values that are remembered, and of bytes that they take, about.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.known.len(), *self.n_bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes a value as often; returns whether it is remembered then.
    fn noted(recent: &Recent<usize>, encoded: &[u8], n_bytes: usize, times: usize) -> bool {
        (0..times).for_each(|_| recent.note(encoded, &n_bytes, n_bytes));
        recent.get(encoded) == Some(n_bytes)
    }

    #[test]
    fn what_comes_twice_is_remembered() {
        let recent = Recent::default();
        assert!(!noted(&recent, b"a", 100, 1));
        assert!(!noted(&recent, b"b", 100, 1));
        assert!(noted(&recent, b"a", 100, 1));
        assert!(noted(&recent, b"a", 100, 5));
        assert_eq!(recent.size(), (1, 100));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let recent = Recent::default();
        for i in 0..3 * MAX_VALUES {
            assert!(noted(&recent, &i.to_le_bytes(), 100, 2));
        }
        let (n, n_bytes) = recent.size();
        assert!((1..=MAX_VALUES).contains(&n) && n_bytes == 100 * n, "{n} of {n_bytes} bytes");
        for i in 0..100_usize {
            noted(&recent, &i.to_le_bytes(), MAX_VALUE_BYTES, 2);
            assert!(recent.size().1 <= MAX_BYTES);
        }
    }

    /// A value above the bound for one is not kept, and others stay.
    #[test]
    fn what_is_large_is_not_remembered() {
        let recent = Recent::default();
        assert!(noted(&recent, b"small", 1, 2));
        assert!(!noted(&recent, b"large", MAX_VALUE_BYTES + 1, 3));
        assert_eq!(recent.size(), (1, 1));
    }
}
