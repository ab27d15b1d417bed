//! The ledger in memory: fulfils the whole contract, except that it ends with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    Bounds, CommitError, Entry, JournalLine, JournalPage, Key, Ledger, LedgerError, Revision,
    Transaction,
};

/// A ledger in memory.
#[derive(Debug)]
pub struct Memory {
    kept: Mutex<Kept>,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct Kept {
    start: Revision,
    last: Revision,
    n_bytes: u64,
    records: BTreeMap<Key, Entry>,
    /// Lines by their revisions, each with the revision of the line before.
    journal: BTreeMap<Revision, (Revision, Vec<u8>)>,
}

impl Memory {
    /// An empty ledger; its first commit is the one after `start`. If tokens of an earlier ledger may still be in use,
    /// `start` has to be larger than them.
    #[must_use]
    pub fn new(start: Revision) -> Memory {
        Memory::bounded(start, Bounds::default())
    }

    /// An empty ledger with other limits.
    #[must_use]
    pub fn bounded(start: Revision, bounds: Bounds) -> Memory {
        Memory { kept: Mutex::new(Kept { start, last: start, ..Kept::default() }), bounds }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No code between the first and the last write of a commit can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for Memory {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        let kept = self.kept();
        Ok(keys.iter().map(|key| kept.records.get(key).cloned()).collect())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        let kept = self.kept();
        let listed = kept.records.range(Key::stored(prefix)..);
        let listed = listed.take_while(|(key, _)| key.as_str().starts_with(prefix));
        Ok(listed.map(|(key, entry)| (key.clone(), entry.clone())).collect())
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let kept = &mut *self.kept();
        for (key, expected) in &transaction.expectations {
            if kept.records.get(key).map(|entry| entry.revision) != *expected {
                return Err(CommitError::Conflict { key: key.clone() });
            }
        }
        let is_added = |(key, value): &&(Key, Option<Vec<u8>>)| {
            value.is_some() && !kept.records.contains_key(key)
        };
        let n_added = transaction.writes.iter().filter(is_added).count() as u64;
        let limit = self.bounds.max_bytes;
        if n_added > 0 && kept.n_bytes >= limit {
            return Err(CommitError::TooLarge { limit });
        }
        let limit = self.bounds.max_records;
        if n_added > 0 && kept.records.len() as u64 + n_added > limit {
            return Err(CommitError::Full { limit });
        }
        let revision = kept.last.next();
        kept.last = revision;
        for (key, value) in transaction.writes {
            let n_key = key.as_str().len();
            let n_new = value.as_ref().map_or(0, |value| n_key + value.len());
            let old = match value {
                Some(value) => kept.records.insert(key, Entry { value, revision }),
                None => kept.records.remove(&key),
            };
            let n_old = old.map_or(0, |old| n_key + old.value.len());
            kept.n_bytes = kept.n_bytes + n_new as u64 - n_old as u64;
        }
        if let Some(line) = transaction.journal {
            let previous = kept.journal.last_key_value().map_or(kept.start, |(last, _)| *last);
            kept.n_bytes += line.len() as u64;
            kept.journal.insert(revision, (previous, line));
        }
        while kept.journal.len() as u64 > self.bounds.max_journal_lines {
            let dropped = kept.journal.pop_first().map_or(0, |(_, (_, line))| line.len());
            kept.n_bytes -= dropped as u64;
        }
        Ok(revision)
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        let kept = self.kept();
        let later = kept.journal.range((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        Ok(JournalPage {
            lines: later
                .map(|(&revision, (previous, line))| JournalLine {
                    revision,
                    previous: *previous,
                    text: line.clone(),
                })
                .collect(),
            oldest: kept.journal.keys().next().copied(),
            last: kept.last,
        })
    }

    fn n_bytes(&self) -> u64 {
        self.kept().n_bytes
    }
}
