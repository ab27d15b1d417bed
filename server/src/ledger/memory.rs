//! The ledger in memory: fulfils the whole contract, except that it ends with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    Bounds, CommitError, Entry, JournalPage, Key, Ledger, LedgerError, Revision, Transaction,
};

/// A ledger in memory.
#[derive(Debug)]
pub struct Memory {
    kept: Mutex<Kept>,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct Kept {
    last: Revision,
    records: BTreeMap<Key, Entry>,
    journal: BTreeMap<Revision, Vec<u8>>,
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
        Memory { kept: Mutex::new(Kept { last: start, ..Kept::default() }), bounds }
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
        let limit = self.bounds.max_records;
        if n_added > 0 && kept.records.len() as u64 + n_added > limit {
            return Err(CommitError::Full { limit });
        }
        let revision = kept.last.next();
        kept.last = revision;
        for (key, value) in transaction.writes {
            match value {
                Some(value) => kept.records.insert(key, Entry { value, revision }),
                None => kept.records.remove(&key),
            };
        }
        kept.journal.insert(revision, transaction.journal);
        while kept.journal.len() as u64 > self.bounds.max_journal_lines {
            kept.journal.pop_first();
        }
        Ok(revision)
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        let kept = self.kept();
        let later = kept.journal.range((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        Ok(JournalPage {
            lines: later.map(|(&revision, line)| (revision, line.clone())).collect(),
            oldest: kept.journal.keys().next().copied(),
            last: kept.last,
        })
    }
}
