//! ShardSet: a set of shards, as a bitmap.

/// Indexes of shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardSet(Vec<u64>);

impl ShardSet {
    /// All shards of this number.
    pub(crate) fn all(n_shards: usize) -> ShardSet {
        let mut set = ShardSet(vec![u64::MAX; n_shards.div_ceil(64)]);
        if let Some(last) = set.0.last_mut().filter(|_| !n_shards.is_multiple_of(64)) {
            *last = (1 << (n_shards % 64)) - 1;
        }
        set
    }

    pub(crate) fn insert(&mut self, shard: usize) {
        if self.0.len() <= shard / 64 {
            self.0.resize(shard / 64 + 1, 0);
        }
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The first shard at or behind an index.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut word = self.0.get(at)? & (u64::MAX << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// The shards in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.next(0), |last| self.next(last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_each_once() {
        let mut set = ShardSet::default();
        assert_eq!((set.next(0), set.len()), (None, 0));
        for shard in [200, 0, 63, 64, 63, 130] {
            set.insert(shard);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 130, 200]);
        assert_eq!((set.len(), set.next(65), set.next(201)), (5, Some(130), None));
        set.clear();
        assert_eq!(set.iter().count(), 0);
    }

    #[test]
    fn all_of_a_number() {
        for n in [0, 1, 63, 64, 65, 400] {
            assert_eq!(ShardSet::all(n).iter().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            assert_eq!(ShardSet::all(n).len(), n);
        }
    }
}
