//! SpareTables: tables that a writer has left behind, for its next changes of the same shards.
//!
//! A writer changes tables of its own: published ones are read. A copy of a shard's sums takes 16 KiB, and one of its
//! lists of pods a counted pointer for each list beside the changed one. The tables of the change before, which nobody
//! reads any more by then, lack only the rows that changed since.

use std::sync::Arc;

use super::pod_table::PodTable;
use super::shard::Shard;
use super::usage::UsageTable;
use crate::rows::{FEW, RowSet};

/// By shard, what its last change left behind.
#[derive(Debug, Default)]
pub(crate) struct SpareTables(Vec<Option<Spare>>);

/// The tables of a shard as they were at a version.
#[derive(Debug)]
struct Spare {
    version: u64,
    usage: Arc<UsageTable>,
    pods: Arc<PodTable>,
}

/// A copy has no tables: nobody can change one that two have.
impl Clone for SpareTables {
    fn clone(&self) -> SpareTables {
        SpareTables::default()
    }
}

impl SpareTables {
    /// Gives a shard tables of its own for a change, if it shares them with a snapshot. `version` is the shard's before
    /// the change.
    pub(crate) fn unshare(&mut self, shard: &mut Shard, version: u64) {
        if Arc::get_mut(&mut shard.usage).is_some() {
            return;
        }
        if self.0.len() <= shard.index {
            self.0.resize_with(shard.index + 1, Option::default);
        }
        let spare = &mut self.0[shard.index];
        let left = match spare.take().and_then(|spare| spare.updated(shard)) {
            Some(Spare { usage, pods, .. }) => Spare {
                version,
                usage: std::mem::replace(&mut shard.usage, usage),
                pods: std::mem::replace(&mut shard.pods, pods),
            },
            None => {
                let own = Arc::new((*shard.usage).clone());
                let usage = std::mem::replace(&mut shard.usage, own);
                Spare { version, usage, pods: shard.pods.clone() }
            }
        };
        debug_assert_eq!(*left.usage, *shard.usage, "a table of its own has the same sums");
        debug_assert!(left.pods.lists_the_same_as(&shard.pods), "and the same pods");
        *spare = Some(left);
    }

    /// Forgets the tables of a shard, after a change of its lists that has no version.
    pub(crate) fn forget(&mut self, shard: usize) {
        if let Some(spare) = self.0.get_mut(shard) {
            *spare = None;
        }
    }

    /// Forgets the tables of a shard if they were left at this version or later: they lack a pod that is listed only now.
    pub(crate) fn forget_since(&mut self, shard: usize, version: u64) {
        if let Some(spare) = self.0.get_mut(shard)
            && spare.as_ref().is_some_and(|spare| spare.version >= version)
        {
            *spare = None;
        }
    }

    /// Forgets all tables, where versions of shards no longer say which rows changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Spare {
    /// The tables with the rows of the shard that changed since; `None` if somebody reads them, or if these are unknown
    /// or many.
    fn updated(mut self, shard: &Shard) -> Option<Spare> {
        let rows: RowSet = shard.changes.rows_above(self.version)?;
        if rows.len() >= FEW {
            return None;
        }
        Arc::get_mut(&mut self.usage)?.follow(&shard.usage, &rows);
        match Arc::get_mut(&mut self.pods) {
            Some(pods) => pods.follow(&shard.pods, &rows),
            None => self.pods = shard.pods.clone(),
        }
        Some(self)
    }
}
