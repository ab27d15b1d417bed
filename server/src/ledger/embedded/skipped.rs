//! Skipped: revisions that no commit has, since a server that is started goes on from the present time. The journal has
//! no line of them, and that is no gap.

use redb::{ReadableTable as _, ReadableTableMetadata as _, Table};

/// Notes that the commit after `last` is the one after `start`. `oldest` is the oldest line of the journal.
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
