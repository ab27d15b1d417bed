//! State that must survive and be agreed on: a store of small records that change by compare-and-swap only, and what is
//! granted in it.
//!
//! | where | what |
//! |---|---|
//! | here | the [`Ledger`] trait: its contract, keys, transactions, errors |
//! | [`embedded`] | in one file, durable |
//! | [`memory`] | in memory, for tests and for servers that need not remember |
//! | [`grants`] | what is granted: names ([`identity`]), volumes ([`volume`]), fences ([`fence`]); whether a token is current ([`token`]) |
//!
//! The grants know nothing of how records are kept, and the stores nothing of what they mean.

use std::fmt;

use crate::clock;

pub mod embedded;
pub mod memory;

pub mod grants;
pub mod identity;
pub mod volume;
pub mod fence;
pub mod token;
mod reason;

pub use embedded::{Embedded, OpenError};
pub use grants::{GrantError, Grants};
pub use memory::Memory;

/// Position in the one order of all commits. Grows by one with each, survives restarts, is never given twice: what a commit
/// grants has its revision as fencing token.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of the next commit.
    #[must_use]
    pub fn next(self) -> Revision {
        // Reached by no clock and no number of commits: 580,000 years of one a microsecond.
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a record: what kind it is of, then whose; `identity/NAMESPACE/NAME`, `volume/NAME` or `fence/NODE`. The names hold
/// no `/`, so that no two records share a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The lock on the name of a pod.
    #[must_use]
    pub fn identity(namespace: &str, name: &str) -> Key {
        Key(format!("identity/{namespace}/{name}"))
    }

    /// A volume.
    #[must_use]
    pub fn volume(name: &str) -> Key {
        Key(format!("volume/{name}"))
    }

    /// The fence of a node.
    #[must_use]
    pub fn fence(node: &str) -> Key {
        Key(format!("fence/{node}"))
    }

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a new ledger begins: at the present moment, in microseconds. A ledger that replaces one that was lost, or that was
/// never kept, then still grants larger tokens than that one did.
#[must_use]
pub fn first_revision() -> Revision {
    Revision(clock::unix_micros())
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was written.
    pub value: Vec<u8>,
    /// When: the revision of its last change.
    pub revision: Revision,
}

/// A change of some records that happens as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What has to hold for it to happen: each record's last change; `None`: there is no such record.
    pub expectations: Vec<(Key, Option<Revision>)>,
    /// The records' new values; `None` removes one.
    pub writes: Vec<(Key, Option<Vec<u8>>)>,
    /// What the journal says of it, at its revision.
    pub journal: Vec<u8>,
}

/// Some of the journal, in the order of the commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalPage {
    /// Revision and line of each commit, without gaps.
    pub lines: Vec<(Revision, Vec<u8>)>,
    /// The oldest line that is kept; `None`: no line is.
    pub oldest: Option<Revision>,
    /// Revision of the last commit, or the one that the ledger began with.
    pub last: Revision,
}

/// Lines of the journal that are kept. The oldest is dropped by the commit that adds one more.
pub const MAX_JOURNAL_LINES: u64 = 100_000;
/// Records that are kept. A transaction that would add one more is refused.
pub const MAX_RECORDS: u64 = 1_000_000;

/// Bounds on what a ledger keeps.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most lines of the journal, at least 1.
    pub max_journal_lines: u64,
    /// Most records.
    pub max_records: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { max_journal_lines: MAX_JOURNAL_LINES, max_records: MAX_RECORDS }
    }
}

/// A store of small records that change by compare-and-swap only.
///
/// Commits have one total order. What has been committed is seen by every later read, for ever; what is read has been
/// committed, and would survive the loss of power now. All calls block.
pub trait Ledger: Send + Sync + 'static {
    /// The records of `keys` in their order, all as of one moment.
    ///
    /// # Errors
    /// [`LedgerError`] when they cannot be read.
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError>;

    /// All expectations hold, and then all writes happen and the journal gets its line, at the revision that is answered;
    /// or nothing happens.
    ///
    /// # Errors
    /// [`CommitError::Conflict`] and [`CommitError::Full`]: nothing has happened. [`CommitError::Ledger`]: it has happened as a
    /// whole or not at all, and is not known to have.
    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError>;

    /// At most `limit` lines of the journal after `after`.
    ///
    /// # Errors
    /// [`LedgerError`] when it cannot be read.
    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError>;

    /// Why the last call failed, until a change has been written since; `None` in health. Does not block.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Writes what is there already, to find out whether a fault has passed. Changes nothing, whoever looks.
    ///
    /// # Errors
    /// [`LedgerError`] while it has not.
    fn probe(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// Why a ledger cannot be read or written now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The storage failed; it may come back.
    #[error("the ledger is not available: {reason}")]
    Unavailable {
        /// What the storage said.
        reason: String,
    },
    /// What is stored is not what a ledger writes.
    #[error("the ledger is damaged: {reason}")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A record is not as it was expected.
    #[error("`{}` has changed", key.as_str())]
    Conflict {
        /// The first such record.
        key: Key,
    },
    /// No more records may be added.
    #[error("the ledger holds {limit} records, and more may not be")]
    Full {
        /// The bound.
        limit: u64,
    },
    /// The storage failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::first_revision;

    #[test]
    fn a_ledger_begins_after_one_that_ended_a_moment_ago() {
        let first = first_revision();
        thread::sleep(Duration::from_millis(1));
        let second = first_revision();
        // A thousand commits in a millisecond would be another matter than one in a second.
        assert!(second.0 >= first.0 + 1_000, "{first} {second}");
    }
}
