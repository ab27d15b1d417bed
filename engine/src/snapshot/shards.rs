//! Shards: the shards of a snapshot, in groups. A copy costs a pointer for each group, and whoever looks for the shards
//! that changed compares versions that lie side by side: one of each group, then those of a group that differs.

use std::iter::FlatMap;
use std::ops::Index;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::shard::Shard;

/// Number of shards of a group. A change copies the pointers of one group, a snapshot those of all groups: with 8, the 20
/// shards of 5,000 nodes take 11 of them, and the 400 of 100,000 nodes 58.
pub(super) const GROUP: usize = 8;

/// The shards by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shards {
    /// All full but the last.
    groups: Vec<VersionedGroup>,
    n_shards: usize,
}

/// A group with the version that a change of it had last. Versions are given once, so that a group of equal version is
/// the same group.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionedGroup {
    version: u64,
    group: Arc<Group>,
}

/// Shards of consecutive indexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Copies of the shards' versions.
    versions: SmallVec<[u64; GROUP]>,
    shards: SmallVec<[Arc<Shard>; GROUP]>,
}

impl Shards {
    /// Number of shards.
    pub(crate) fn len(&self) -> usize {
        self.n_shards
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Arc<Shard>> {
        self.groups.get(index / GROUP)?.group.shards.get(index % GROUP)
    }

    /// The shards in the order of their indexes.
    pub(crate) fn iter(&self) -> Iter<'_> {
        self.groups.iter().flat_map(|versioned| versioned.group.shards.iter())
    }

    /// The versions of the shards, in the same order.
    pub(crate) fn versions(&self) -> impl Iterator<Item = u64> {
        self.groups.iter().flat_map(|versioned| versioned.group.versions.iter().copied())
    }

    /// The groups by index: the version that a change of it had last, and the versions of its shards.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.groups.iter().map(|VersionedGroup { version, group }| (*version, &group.versions[..]))
    }

    /// Appends a shard.
    pub(crate) fn push(&mut self, shard: Arc<Shard>) {
        debug_assert_eq!(shard.index, self.n_shards, "each shard is at its index");
        if self.n_shards.is_multiple_of(GROUP) {
            self.groups.push(VersionedGroup::default());
        }
        self.n_shards += 1;
        if let Some(VersionedGroup { version, group }) = self.groups.last_mut() {
            *version = shard.version.max(*version);
            let group = Arc::make_mut(group);
            group.versions.push(shard.version);
            group.shards.push(shard);
        }
    }

    /// The shard at an index, for a change that gives it this version.
    ///
    /// # Panics
    /// If there is no such shard.
    pub(crate) fn change(&mut self, index: usize, version: u64) -> &mut Shard {
        let versioned = &mut self.groups[index / GROUP];
        versioned.version = version;
        let group = Arc::make_mut(&mut versioned.group);
        group.versions[index % GROUP] = version;
        let shard = Arc::make_mut(&mut group.shards[index % GROUP]);
        shard.version = version;
        shard
    }

    /// The shard at an index, for a change that no decision can tell, so that its version stays.
    ///
    /// # Panics
    /// If there is no such shard.
    pub(crate) fn amend(&mut self, index: usize) -> &mut Shard {
        let group = Arc::make_mut(&mut self.groups[index / GROUP].group);
        Arc::make_mut(&mut group.shards[index % GROUP])
    }
}

/// The shards of a snapshot, in the order of their indexes.
pub(crate) type Iter<'a> = FlatMap<
    slice::Iter<'a, VersionedGroup>,
    slice::Iter<'a, Arc<Shard>>,
    fn(&'a VersionedGroup) -> slice::Iter<'a, Arc<Shard>>,
>;

impl<'a> IntoIterator for &'a Shards {
    type Item = &'a Arc<Shard>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Index<usize> for Shards {
    type Output = Arc<Shard>;

    fn index(&self, index: usize) -> &Arc<Shard> {
        &self.groups[index / GROUP].group.shards[index % GROUP]
    }
}

impl FromIterator<Arc<Shard>> for Shards {
    fn from_iter<I: IntoIterator<Item = Arc<Shard>>>(all: I) -> Shards {
        let mut shards = Shards::default();
        all.into_iter().for_each(|shard| shards.push(shard));
        shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(n: usize) -> Shards {
        let shard = |index| Shard { index, version: 100 + index as u64, ..Shard::default() };
        (0..n).map(|index| Arc::new(shard(index))).collect()
    }

    #[test]
    fn every_shard_is_at_its_index() {
        for n in [0, 1, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP] {
            let shards = shards(n);
            assert_eq!(shards.len(), n);
            assert!(shards.iter().enumerate().all(|(i, shard)| shard.index == i));
            assert_eq!(shards.iter().count(), n);
            assert!((0..n).all(|i| shards[i].index == i));
            assert_eq!(shards.get(n).map(|shard| shard.index), None);
            let versions: Vec<u64> = shards.versions().collect();
            assert_eq!(versions, (0..n as u64).map(|i| 100 + i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_change_leaves_copies_as_they_are() {
        let mut shards = shards(GROUP + 1);
        let before = shards.clone();
        assert_eq!(shards.change(0, 900).version, 900);
        shards.amend(GROUP);
        assert_eq!(before[0].version, 100);
        let of_groups = |shards: &Shards| -> Vec<u64> { shards.groups().map(|it| it.0).collect() };
        assert_eq!(of_groups(&before), [100 + GROUP as u64 - 1, 100 + GROUP as u64]);
        assert_eq!(of_groups(&shards), [900, 100 + GROUP as u64]);
    }
}
