//! RowChanges: what changed last on the rows of a shard, so that who follows it reads neither the versions nor the pods
//! of rows.

use smallvec::SmallVec;

use crate::model::Pod;
use crate::model::population::PopulationId;
use crate::model::shape::ShapeId;
use crate::rows::RowSet;

/// Number of changes that are kept: with 20 shards, some 160 placed pods until a shape comes again.
const KEPT: usize = 8;

/// A change of one row: whether it was that a single pod came or left, which a count can follow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// One pod came, or left.
    Pod(PodChange),
    /// Something else, such as the node.
    Other,
}

/// A pod that came to a row, or left it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodChange {
    pub(crate) population: PopulationId,
    pub(crate) shape: ShapeId,
    /// 1 for a pod that came, -1 for one that left.
    pub(crate) sign: i32,
}

impl RowChange {
    /// A pod came.
    pub(crate) fn came(pod: &Pod) -> RowChange {
        RowChange::of_pod(pod, 1)
    }

    /// A pod left.
    pub(crate) fn left(pod: &Pod) -> RowChange {
        RowChange::of_pod(pod, -1)
    }

    fn of_pod(pod: &Pod, sign: i32) -> RowChange {
        RowChange::Pod(PodChange { population: pod.population().id, shape: pod.shape().id, sign })
    }
}

/// The last changes of a shard's rows.
#[derive(Clone, Debug)]
pub(crate) struct RowChanges {
    /// The next one replaces the oldest.
    changes: [Versioned; KEPT],
    next: usize,
    /// All changes with newer versions are among those that are kept.
    complete_above: u64,
}

/// A change of a row, with the version that it gave the row.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Versioned {
    version: u64,
    row: u8,
    pub(crate) change: RowChange,
}

impl Versioned {
    pub(crate) fn row(&self) -> usize {
        usize::from(self.row)
    }
}

impl Default for RowChanges {
    fn default() -> RowChanges {
        let none = Versioned { version: 0, row: 0, change: RowChange::Other };
        RowChanges { changes: [none; KEPT], next: 0, complete_above: 0 }
    }
}

impl RowChanges {
    /// Notes what has changed on a row; versions never fall.
    pub(crate) fn note(&mut self, row: usize, version: u64, change: RowChange) {
        let at = self.next;
        self.complete_above = self.complete_above.max(self.changes[at].version);
        self.changes[at] = Versioned { version, row: row as u8, change };
        self.next = (at + 1) % KEPT;
    }

    /// The changes above a version, unordered; `None` where they are not known any more.
    pub(crate) fn above(&self, version: u64) -> Option<SmallVec<[Versioned; KEPT]>> {
        (version >= self.complete_above).then(|| self.newer(version).copied().collect())
    }

    /// The rows that changed above a version; `None` where they are not known any more.
    pub(crate) fn rows_above(&self, version: u64) -> Option<RowSet> {
        (version >= self.complete_above).then(|| self.newer(version).map(Versioned::row).collect())
    }

    fn newer(&self, version: u64) -> impl Iterator<Item = &Versioned> {
        self.changes.iter().filter(move |change| change.version > version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    /// Compares with the versions of all rows; several changes may have one version.
    #[test]
    fn what_is_known_is_what_the_versions_of_all_rows_say() {
        let (mut changes, mut versions) = (RowChanges::default(), [0_u64; ROWS]);
        let mut n_known = 0;
        for step in 0..2_000_u64 {
            let (row, version) = ((step * step * 7 % 251) as usize, 1 + step / (1 + step % 3));
            let version = versions.iter().copied().max().unwrap_or(0).max(version);
            changes.note(row, version, RowChange::Other);
            versions[row] = version;
            for above in version.saturating_sub(12)..=version {
                let all: RowSet = (0..ROWS).filter(|row| versions[*row] > above).collect();
                let known = changes.rows_above(above);
                assert!(known.is_none_or(|known| known == all), "above {above} at step {step}");
                n_known += u32::from(known.is_some_and(|known| !known.is_empty()));
            }
            assert_eq!(changes.rows_above(version), Some(RowSet::EMPTY));
        }
        assert!(n_known > 2_000, "{n_known} answers");
    }
}
