//! InUse: the number of volumes that each driver has on each row, and its limit there (S-VLL-4, S-VLL-5).

use std::sync::Arc;

use imbl::OrdMap;

use super::hashed::Hashed;
use crate::model::intern::Symbol;
use crate::model::key::VolumeId;
use crate::rows::{Column, NodeRow, RowSet};

/// Volumes in use by row. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct InUse {
    holders: OrdMap<(Hashed<VolumeId>, NodeRow), Holders>,
    /// Counts by driver and shard.
    counts: OrdMap<(Symbol, usize), Arc<DriverCounts>>,
}

/// A kind of user of a volume.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    Pod,
    Attachment,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Holders {
    n_pods: u32,
    n_attachments: u32,
}

/// Counts of one driver on the rows of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverCounts {
    /// Rows with a limit of the driver.
    pub(crate) limited: RowSet,
    /// The limit; 0 where there is none.
    pub(crate) limit: Column<i32>,
    /// Number of distinct volumes that pods or attachments use.
    pub(crate) in_use: Column<i32>,
}

impl InUse {
    pub(crate) fn add(&mut self, volume: &VolumeId, row: NodeRow, holder: Holder) {
        let key = || (Hashed::of(volume.clone()), row);
        let mut one = Holders::default();
        *one.of(holder) = 1;
        // Most volumes have one holder, so that this is all.
        match self.holders.insert(key(), one) {
            Some(mut holders) => {
                *holders.of(holder) += 1;
                self.holders.insert(key(), holders);
            }
            None => self.counts_mut(volume.driver, row).in_use[row.row()] += 1,
        }
    }

    pub(crate) fn remove(&mut self, volume: &VolumeId, row: NodeRow, holder: Holder) {
        let key = (Hashed::of(volume.clone()), row);
        let Some(mut holders) = self.holders.remove(&key) else {
            debug_assert!(false, "a volume that was never added");
            return;
        };
        let n_holders = holders.of(holder);
        *n_holders = n_holders.saturating_sub(1);
        if holders == Holders::default() {
            self.counts_mut(volume.driver, row).in_use[row.row()] -= 1;
        } else {
            self.holders.insert(key, holders);
        }
    }

    /// Sets or removes a driver's limit on a row.
    pub(crate) fn set_limit(&mut self, driver: Symbol, row: NodeRow, limit: Option<i32>) {
        let counts = self.counts_mut(driver, row);
        match limit {
            Some(_) => counts.limited.insert(row.row()),
            None => counts.limited.remove(row.row()),
        }
        counts.limit[row.row()] = limit.unwrap_or(0);
    }

    /// Counts of a driver on a shard; `None` where it never had any.
    pub(crate) fn counts(&self, driver: Symbol, shard: usize) -> Option<&DriverCounts> {
        self.counts.get(&(driver, shard)).map(|counts| &**counts)
    }

    /// Whether a volume is attached to the node of a row.
    pub(crate) fn is_attached(&self, volume: &VolumeId, row: NodeRow) -> bool {
        let holders = self.holders.get(&(Hashed::of(volume.clone()), row));
        holders.is_some_and(|holders| holders.n_attachments > 0)
    }

    /// The rows with pods that use a volume.
    pub(crate) fn rows_of<'a>(
        &'a self,
        volume: &'a VolumeId,
    ) -> impl Iterator<Item = NodeRow> + 'a {
        let rows = self.holders.range((Hashed::of(volume.clone()), NodeRow::FIRST)..);
        rows.take_while(move |((of, _), _)| of.key == *volume)
            .filter(|(_, holders)| holders.n_pods > 0)
            .map(|((_, row), _)| *row)
    }

    fn counts_mut(&mut self, driver: Symbol, row: NodeRow) -> &mut DriverCounts {
        Arc::make_mut(self.counts.entry((driver, row.shard())).or_default())
    }
}

impl Holders {
    fn of(&mut self, holder: Holder) -> &mut u32 {
        match holder {
            Holder::Pod => &mut self.n_pods,
            Holder::Attachment => &mut self.n_attachments,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Interner;

    /// S-VLL-5
    #[test]
    fn a_volume_counts_once_however_many_use_it() {
        let driver = Interner::new().intern("driver");
        let volume = VolumeId::of_handle(driver, "v".into());
        let row = NodeRow::new(3, 7);
        let mut in_use = InUse::default();
        let count = |in_use: &InUse| in_use.counts(driver, 3).map_or(0, |c| c.in_use[7]);
        in_use.add(&volume, row, Holder::Pod);
        in_use.add(&volume, row, Holder::Pod);
        in_use.add(&volume, row, Holder::Attachment);
        assert_eq!(count(&in_use), 1);
        in_use.remove(&volume, row, Holder::Pod);
        assert_eq!(in_use.rows_of(&volume).collect::<Vec<_>>(), [row]);
        in_use.remove(&volume, row, Holder::Pod);
        assert_eq!(in_use.rows_of(&volume).count(), 0, "an attachment is no pod");
        assert_eq!(count(&in_use), 1);
        in_use.remove(&volume, row, Holder::Attachment);
        assert_eq!(count(&in_use), 0);
        in_use.set_limit(driver, row, Some(0));
        assert!(in_use.counts(driver, 3).is_some_and(|counts| counts.limited.contains(7)));
        in_use.set_limit(driver, row, None);
        assert!(in_use.counts(driver, 3).is_some_and(|counts| counts.limited.is_empty()));
    }
}
