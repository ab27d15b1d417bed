//! Hashed: maps that compare hashes before texts, so that finding one of many keys reads few of them.

use std::hash::{BuildHasher, Hash};

use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use rustc_hash::FxBuildHasher;

/// A map whose copies share what is equal. Its order is arbitrary.
pub(super) type HashMap<K, V> = GenericHashMap<K, V, FxBuildHasher, DefaultSharedPtr>;

/// A key that is ordered by its hash, and by itself only among those of the same hash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Hashed<K> {
    hash: u64,
    pub(super) key: K,
}

impl<K: Hash> Hashed<K> {
    pub(super) fn of(key: K) -> Hashed<K> {
        Hashed { hash: FxBuildHasher.hash_one(&key), key }
    }
}
