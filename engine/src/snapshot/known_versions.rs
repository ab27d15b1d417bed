//! KnownVersions: the versions of shards that someone has seen, by which changed shards are found.

use smallvec::SmallVec;

use super::shards::{GROUP, Shards};

/// Versions of the shards that were seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownVersions {
    /// By shard; 0 for shards that were never seen.
    shards: Vec<u64>,
    /// The versions of the groups whose shards were all seen under them; [`UNKNOWN`] for others.
    groups: Vec<u64>,
}

/// Not the version of a group.
const UNKNOWN: u64 = u64::MAX;

impl KnownVersions {
    /// The version of a shard that was seen last; 0 for none.
    pub(crate) fn of(&self, shard: usize) -> u64 {
        self.shards.get(shard).copied().unwrap_or_default()
    }

    /// The shards whose version is another one than was seen last, in ascending order.
    pub(crate) fn changed(&self, shards: &Shards) -> SmallVec<[usize; 8]> {
        let mut changed = SmallVec::new();
        for (at, (version, of_shards)) in shards.groups().enumerate() {
            if self.groups.get(at) == Some(&version) {
                continue;
            }
            for (index, version) in (at * GROUP..).zip(of_shards) {
                if self.shards.get(index) != Some(version) {
                    changed.push(index);
                }
            }
        }
        changed
    }

    /// Notes the version of one shard that was seen.
    pub(crate) fn note(&mut self, shard: usize, version: u64) {
        if self.shards.len() <= shard {
            self.shards.resize(shard + 1, 0);
        }
        self.shards[shard] = version;
        if let Some(group) = self.groups.get_mut(shard / GROUP) {
            *group = UNKNOWN;
        }
    }

    /// Notes the groups of which every shard was noted in the version that it has.
    pub(crate) fn note_groups(&mut self, shards: &Shards) {
        self.groups.resize(shards.len().div_ceil(GROUP), UNKNOWN);
        for (at, (version, of_shards)) in shards.groups().enumerate() {
            if self.groups[at] != version {
                let from = at * GROUP;
                let seen = self.shards.get(from..from + of_shards.len());
                self.groups[at] = if seen == Some(of_shards) { version } else { UNKNOWN };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::shard::Shard;
    use super::*;

    const N: usize = 2 * GROUP + 3;

    fn shards() -> Shards {
        let shard = |index| Shard { index, version: 100 + index as u64, ..Shard::default() };
        (0..N).map(|index| Arc::new(shard(index))).collect()
    }

    fn seen(shards: &Shards) -> KnownVersions {
        let mut known = KnownVersions::default();
        for index in known.changed(shards) {
            known.note(index, shards[index].version);
        }
        known.note_groups(shards);
        known
    }

    #[test]
    fn changed_shards_are_found() {
        let mut shards = shards();
        assert_eq!(KnownVersions::default().changed(&shards).len(), N);
        let (before, known) = (shards.clone(), seen(&shards));
        assert!(known.changed(&shards).is_empty());
        for (index, version) in [(0, 900), (GROUP, 901), (N - 1, 902)] {
            shards.change(index, version);
        }
        shards.amend(5);
        let mut partly = known.clone();
        partly.note(GROUP, 901);
        partly.note(N - 1, 0);
        partly.note_groups(&shards);
        assert_eq!(partly.changed(&shards)[..], [0, N - 1], "one is not noted, one in no version");
        assert_eq!(known.changed(&shards)[..], [0, GROUP, N - 1]);
        assert!(known.changed(&before).is_empty());
        shards.push(Arc::new(Shard { index: N, version: 903, ..Shard::default() }));
        assert_eq!(known.changed(&shards)[..], [0, GROUP, N - 1, N]);
        assert_eq!((known.of(N - 1), known.of(N)), (100 + N as u64 - 1, 0));
    }

    /// A shard that was seen in a newer state has changed where the older one is looked at again, though its group is the
    /// one that was seen.
    #[test]
    fn what_was_seen_by_itself_does_not_count_for_its_group() {
        let mut shards = shards();
        let (before, mut known) = (shards.clone(), seen(&shards));
        shards.change(3, 900);
        known.note(3, 900);
        assert!(known.changed(&shards).is_empty());
        assert_eq!(known.changed(&before)[..], [3]);
    }
}
