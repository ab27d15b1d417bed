//! DiskIndex: the rows where pods use a disk of their own spec (S-VLR-4).

use imbl::OrdMap;

use crate::model::volume::{Disk, DiskKey};
use crate::rows::NodeRow;

/// Uses by disk and row. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskIndex {
    uses: OrdMap<(DiskKey, NodeRow), DiskUse>,
}

/// Number of volumes of pods on a row that are the disk.
#[derive(Copy, Clone, Debug, Default)]
struct DiskUse {
    n_readers: u32,
    n_writers: u32,
}

impl DiskUse {
    fn of(&mut self, is_read_only: bool) -> &mut u32 {
        if is_read_only { &mut self.n_readers } else { &mut self.n_writers }
    }
}

impl DiskIndex {
    /// Adds the disk of a pod on a row.
    pub(crate) fn add(&mut self, disk: &Disk, row: NodeRow) {
        for key in &disk.keys {
            let uses = self.uses.entry((key.clone(), row)).or_default();
            *uses.of(disk.is_read_only) += 1;
        }
    }

    /// Removes the disk of a pod from a row.
    pub(crate) fn remove(&mut self, disk: &Disk, row: NodeRow) {
        for key in &disk.keys {
            let key = (key.clone(), row);
            let Some(uses) = self.uses.get_mut(&key) else {
                debug_assert!(false, "a disk that was never added");
                continue;
            };
            let n_uses = uses.of(disk.is_read_only);
            *n_uses = n_uses.saturating_sub(1);
            if uses.n_readers + uses.n_writers == 0 {
                self.uses.remove(&key);
            }
        }
    }

    /// Number of volumes of pods on a row that are the disk: read-only ones, and others.
    pub(crate) fn uses(&self, key: &DiskKey, row: NodeRow) -> (i64, i64) {
        let uses = self.uses.get(&(key.clone(), row)).copied().unwrap_or_default();
        (i64::from(uses.n_readers), i64::from(uses.n_writers))
    }

    /// The rows with a pod that conflicts with a new user of this disk: any user unless both only read.
    pub(crate) fn conflicts<'a>(&'a self, disk: &'a Disk) -> impl Iterator<Item = NodeRow> + 'a {
        disk.keys.iter().flat_map(|key| {
            let uses = self.uses.range((key.clone(), NodeRow::FIRST)..);
            uses.take_while(move |((of, _), _)| of == key)
                .filter(|(_, uses)| !disk.is_read_only || uses.n_writers > 0)
                .map(|((_, row), _)| *row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-VLR-4
    #[test]
    fn readers_do_not_disturb_each_other() {
        let disk = |is_read_only| Disk {
            keys: [DiskKey::GcePersistentDisk("d".into())].into(),
            is_read_only,
        };
        let [r0, r1] = [0, 1].map(|row| NodeRow::new(0, row));
        let mut index = DiskIndex::default();
        index.add(&disk(true), r0);
        index.add(&disk(true), r1);
        index.add(&disk(false), r1);
        let rows = |index: &DiskIndex, disk| index.conflicts(&disk).collect::<Vec<_>>();
        assert_eq!(rows(&index, disk(true)), [r1]);
        assert_eq!(rows(&index, disk(false)), [r0, r1]);
        index.remove(&disk(false), r1);
        assert_eq!(rows(&index, disk(true)), []);
        index.remove(&disk(true), r0);
        index.remove(&disk(true), r1);
        assert_eq!(rows(&index, disk(false)), []);
    }
}
