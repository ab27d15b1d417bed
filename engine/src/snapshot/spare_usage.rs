//! SpareUsage: tables of sums that a writer has left behind, for its next changes of the same shards.
//!
//! A writer changes a table of its own: the published one is read. A copy of all columns takes 16 KiB; the table of the
//! change before, which nobody reads any more by then, lacks only the rows that changed since.

use std::sync::Arc;

use super::shard::Shard;
use super::usage::UsageTable;
use crate::rows::FEW;

/// By shard, the table that its last change left behind, with the shard's version at that time.
#[derive(Debug, Default)]
pub(crate) struct SpareUsage(Vec<Option<(u64, Arc<UsageTable>)>>);

/// A copy has no tables: nobody can change one that two have.
impl Clone for SpareUsage {
    fn clone(&self) -> SpareUsage {
        SpareUsage::default()
    }
}

impl SpareUsage {
    /// Gives a shard a table of its own, if it shares its table with a snapshot. `version` is the shard's up to now.
    pub(crate) fn unshare(&mut self, shard: &mut Shard, version: u64) {
        if Arc::get_mut(&mut shard.usage).is_some() {
            return;
        }
        if self.0.len() <= shard.index {
            self.0.resize_with(shard.index + 1, Option::default);
        }
        let spare = &mut self.0[shard.index];
        let updated = spare.take().and_then(|(known, table)| updated(table, shard, known));
        let own = updated.unwrap_or_else(|| Arc::new((*shard.usage).clone()));
        debug_assert_eq!(*own, *shard.usage, "a table of its own has the same sums");
        *spare = Some((version, std::mem::replace(&mut shard.usage, own)));
    }

    /// Forgets all tables, where versions of shards no longer say which rows changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A table with the rows that changed above its version; `None` if somebody reads it, or if these are unknown or many.
fn updated(mut table: Arc<UsageTable>, shard: &Shard, version: u64) -> Option<Arc<UsageTable>> {
    let rows = shard.changes.rows_above(version).filter(|rows| rows.len() < FEW)?;
    Arc::get_mut(&mut table)?.follow(&shard.usage, &rows);
    Some(table)
}
