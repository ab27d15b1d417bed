//! The tables of the file.

use redb::{Database, TableDefinition, WriteTransaction};

/// [`FORMAT`] and the revision of the last commit, by name.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("berth.ledger.meta");
/// Each record by its key: revision of its last change, and value.
pub(super) const RECORDS: TableDefinition<'_, &str, (u64, &[u8])> =
    TableDefinition::new("berth.ledger.records");
/// The journal's lines by their revisions.
pub(super) const JOURNAL: TableDefinition<'_, u64, &[u8]> =
    TableDefinition::new("berth.ledger.journal");

/// Version of the tables.
pub(super) const FORMAT: u64 = 1;
pub(super) const FORMAT_KEY: &str = "format";
pub(super) const REVISION_KEY: &str = "revision";

/// Bytes of the file that are kept in memory.
pub(super) const CACHE_BYTES: usize = 32 << 20;

/// A transaction whose pages are synced before the header that leads to them. With one sync for both, a page of the last commit that
/// cannot be read after a crash would be taken for one that was never finished: what had been answered would be forgotten.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut writing = database.begin_write()?;
    writing.set_two_phase_commit(true);
    Ok(writing)
}
