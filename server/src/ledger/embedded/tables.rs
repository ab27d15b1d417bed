//! The tables of the file.

use redb::{Database, TableDefinition, WriteTransaction};

/// Table of [`FORMAT`], the revision of the last commit, and that of the last line where it is another, by name.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("berth.ledger.meta");
/// Table of records by key: revision of the last change, and value.
pub(super) const RECORDS: TableDefinition<'_, &str, (u64, &[u8])> =
    TableDefinition::new("berth.ledger.records");
/// Table of the journal's lines by revision.
pub(super) const JOURNAL: TableDefinition<'_, u64, &[u8]> =
    TableDefinition::new("berth.ledger.journal");
/// Table of the revisions that have no line: the last of some in a row, and the line before them.
pub(super) const SKIPPED: TableDefinition<'_, u64, u64> =
    TableDefinition::new("berth.ledger.skipped");

/// Version of the tables.
pub(super) const FORMAT: u64 = 1;
pub(super) const FORMAT_KEY: &str = "format";
pub(super) const REVISION_KEY: &str = "revision";
/// Revision of the last line of the journal, or the start of the ledger; absent where that is the last commit's.
pub(super) const LINE_KEY: &str = "line";

/// Number of bytes of the file that are cached in memory.
pub(super) const CACHE_BYTES: usize = 32 << 20;

/// Begins a transaction whose pages are synced before the header that leads to them. With one sync for both, a page of
/// the last commit that is unreadable after a crash would look like an unfinished commit, and an answered commit would
/// be lost.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut writing = database.begin_write()?;
    writing.set_two_phase_commit(true);
    Ok(writing)
}
