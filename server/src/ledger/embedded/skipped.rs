//! Skipped: revisions that have no line in the journal, and that is no gap: a server that is started goes on from the
//! present time, and some commits leave no line.

use redb::{ReadableTable as _, ReadableTableMetadata as _, Table};

/// Notes that the line after the one at `last` is at the revision after `start`. `oldest` is the oldest line of the
/// journal.
pub(super) fn note(
    skipped: &mut Table<'_, u64, u64>,
    (last, start): (u64, u64),
    oldest: Option<u64>,
) -> Result<(), redb::Error> {
    skipped.insert(start, last)?;
    // Of those before the one that the oldest line follows nobody asks.
    while skipped.len()? > 1 {
        let first = skipped.first()?.map(|(start, _)| start.value());
        if first.is_none_or(|first| oldest.is_some_and(|oldest| oldest <= first + 1)) {
            break;
        }
        skipped.pop_first()?;
    }
    Ok(())
}
