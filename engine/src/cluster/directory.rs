//! Directory: a hash map that can be copied for the price of a few pointers; without copies it is as fast as any.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// A hash map in buckets, which are copied on their first change after a copy of the map.
#[derive(Clone, Debug)]
pub(super) struct Directory<K, V> {
    buckets: Box<[Arc<FxHashMap<K, V>>]>,
    len: usize,
}

/// Number of buckets. Copying the map costs a pointer for each; the first change of a bucket after that copies the
/// bucket.
const BUCKETS: usize = 256;

impl<K, V> Default for Directory<K, V> {
    fn default() -> Directory<K, V> {
        Directory { buckets: vec![Arc::default(); BUCKETS].into(), len: 0 }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Directory<K, V> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if self.len == 0 { None } else { self.buckets[bucket_of(key)].get(key) }
    }

    /// The value of a key, for changing it.
    pub(super) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        Arc::make_mut(&mut self.buckets[bucket_of(key)]).get_mut(key)
    }

    /// Adds a value or replaces that of the key; returns the replaced value.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = Arc::make_mut(&mut self.buckets[bucket_of(&key)]).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes a key; returns it with its value.
    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        if self.len == 0 {
            return None;
        }
        let removed = Arc::make_mut(&mut self.buckets[bucket_of(key)]).remove_entry(key);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// All keys and values, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }

    /// Changes every value.
    pub(super) fn for_each_mut(&mut self, mut change: impl FnMut(&mut V)) {
        for bucket in self.buckets.iter_mut().filter(|bucket| !bucket.is_empty()) {
            Arc::make_mut(bucket).values_mut().for_each(&mut change);
        }
    }
}

/// The bucket of a key: uses well-mixed bits of the hash that the map of a bucket does not use unless it is very large.
fn bucket_of<Q: Hash + ?Sized>(key: &Q) -> usize {
    (FxBuildHasher.hash_one(key) >> 18) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut directory: Directory<u64, u32> = Directory::default();
        for key in 0..2000 {
            assert_eq!(directory.insert(key, key as u32), None);
        }
        let copy = directory.clone();
        assert_eq!(directory.insert(7, 70), Some(7));
        assert_eq!(directory.remove(&8), Some((8, 8)));
        assert_eq!(directory.remove(&8), None);
        directory.for_each_mut(|value| *value += 1);
        assert_eq!([7, 8, 9].map(|key| directory.get(&key).copied()), [Some(71), None, Some(10)]);
        assert_eq!(directory.iter().count(), 1999);
        assert_eq!(copy.iter().map(|(_, value)| u64::from(*value)).sum::<u64>(), 1999 * 1000);
        let used = copy.buckets.iter().filter(|bucket| !bucket.is_empty()).count();
        assert!(used > BUCKETS / 2, "{used} buckets share the keys");
    }
}
