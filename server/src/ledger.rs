//! State that must survive and be agreed on: a store of small records that change by compare-and-swap only, and the
//! grants in it.
//!
//! | where | what |
//! |---|---|
//! | here | the [`Ledger`] trait: its contract, keys, transactions, errors |
//! | [`embedded`] | in one file, durable |
//! | [`etcd`] | in etcd, for several replicas |
//! | [`memory`] | in memory, for tests and for servers that need not remember |
//! | [`claim`] | what requests claim of pods and nodes, and what this server has seen |
//! | [`grants`] | grants of names ([`identity`]), volumes ([`volume`]), fences ([`fence`]); current tokens ([`token`]) |
//!
//! The grants do not depend on how records are stored, and the stores not on what records mean.

use std::fmt;

use tokio::sync::watch;

use crate::clock;

pub mod embedded;
pub mod etcd;
pub mod memory;

pub mod claim;
pub mod grants;
pub mod identity;
pub mod volume;
pub mod fence;
pub mod token;
mod reason;

pub use claim::{Blind, Contradiction, Sight, Witness};
pub use embedded::{Embedded, OpenError};
pub use etcd::{Etcd, EtcdOptions, EtcdStartError, PeerFiles, Replica, Role};
pub(crate) use etcd::{Listed, News};
pub use grants::{Call, ForceRight, GrantError, Grants};
pub use memory::Memory;

/// Position in the total order of all commits. Grows by one with each commit, and beyond the present time in
/// microseconds when a server is started; survives restarts, and is never reused: the fencing token of a grant is the
/// revision of its commit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of the next commit.
    #[must_use]
    pub fn next(self) -> Revision {
        // No clock and no number of commits gets there: 580,000 years of one commit a microsecond.
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A term of a committer, of a ledger that several servers share. Each one is greater than those before.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub i64);

/// Key of a record, from its kind and its subject: `identity/NAMESPACE/NAME`, `volume/NAME`, `fence/NODE`,
/// `reservation/NUMBER`, `reservation-state/NUMBER`, `nomination/NAMESPACE/NAME` or `position`. The names contain no `/`,
/// so that no two records share a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of the lock on a pod's name.
    #[must_use]
    pub fn identity(namespace: &str, name: &str) -> Key {
        Key(format!("identity/{namespace}/{name}"))
    }

    /// The key of a volume.
    #[must_use]
    pub fn volume(name: &str) -> Key {
        Key(format!("volume/{name}"))
    }

    /// The key of a node's fence.
    #[must_use]
    pub fn fence(node: &str) -> Key {
        Key(format!("fence/{node}"))
    }

    /// The key of a stored record.
    pub(crate) fn stored(text: &str) -> Key {
        Key(text.to_owned())
    }

    /// The key of a record of reservations, which never changes. Its number is the token of its first pod.
    pub(crate) fn reservation(number: u64) -> Key {
        Key(format!("{}{number:020}", Key::RESERVATIONS))
    }

    /// The key of what of a record of reservations may change.
    pub(crate) fn reservation_state(number: u64) -> Key {
        Key(format!("{}{number:020}", Key::RESERVATION_STATES))
    }

    /// The key of a pod's nomination.
    pub(crate) fn nomination(namespace: &str, name: &str) -> Key {
        Key(format!("{}{namespace}/{name}", Key::NOMINATIONS))
    }

    /// The key of a request that its caller has named.
    pub(crate) fn request(user: &str, method: &str, id: &str) -> Key {
        // The length tells where a name ends that may have any character.
        Key(format!("{}{}/{user}{method}/{id}", Key::REQUESTS, user.len()))
    }

    /// The key of a further part of what this key is about.
    pub(crate) fn request_part(&self, n: u32) -> Key {
        Key(format!("{}{n:04}/{}", Key::REQUEST_PARTS, self.0))
    }

    /// Start of the keys of all requests, and of their further parts.
    pub(crate) const REQUESTS: &str = "request/";
    pub(crate) const REQUEST_PARTS: &str = "request-part/";

    /// Start of the keys of all nominations.
    pub(crate) const NOMINATIONS: &str = "nomination/";

    /// The number of a record of reservations; `None` for another key.
    pub(crate) fn number_of_reservation(&self) -> Option<u64> {
        self.0.strip_prefix(Key::RESERVATIONS)?.parse().ok()
    }

    /// Start of the keys of all records of reservations.
    pub(crate) const RESERVATIONS: &str = "reservation/";

    /// Start of the keys of what of them may change.
    pub(crate) const RESERVATION_STATES: &str = "reservation-state/";

    /// The number of the changeable part of a record of reservations; `None` for another key.
    pub(crate) fn number_of_reservation_state(&self) -> Option<u64> {
        self.0.strip_prefix(Key::RESERVATION_STATES)?.parse().ok()
    }

    /// The key of what the last committer knew: how far its feed was, and its last token.
    pub(crate) fn position() -> Key {
        Key(Key::POSITION.to_owned())
    }

    pub(crate) const POSITION: &str = "position";

    /// Start of the keys of all fences.
    pub(crate) const FENCES: &str = "fence/";

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Start of a new ledger: the present time in microseconds. A ledger that replaces a lost one, or one that was never
/// stored, then still grants larger tokens than the old one.
#[must_use]
pub fn first_revision() -> Revision {
    Revision(clock::unix_micros())
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Revision of the last change.
    pub revision: Revision,
}

/// A change of some records that happens as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Expected revisions: each record's last change; `None` if there must be no such record.
    pub expectations: Vec<(Key, Option<Revision>)>,
    /// The records' new values; `None` removes one.
    pub writes: Vec<(Key, Option<Vec<u8>>)>,
    /// The line for the journal, at the transaction's revision; `None` for a change that it does not tell.
    pub journal: Option<Vec<u8>>,
    /// The term in which the change was decided: in another one nothing changes. `None` where no other server commits, or
    /// the expectations are all that it depends on.
    pub term: Option<Term>,
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// Revision of the commit.
    pub revision: Revision,
    /// Revision of the line before; for the first one the start of the ledger.
    pub previous: Revision,
    /// What the commit noted.
    pub text: Vec<u8>,
}

/// Some lines of the journal, in the order of the commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalPage {
    /// Each commit.
    pub lines: Vec<JournalLine>,
    /// The oldest line that is kept; `None` if there are no lines.
    pub oldest: Option<Revision>,
    /// Revision of the last commit, or the start of the ledger.
    pub last: Revision,
}

/// Maximum number of lines in the journal. The commit that adds one more drops the oldest.
pub const MAX_JOURNAL_LINES: u64 = 100_000;
/// Maximum number of records. A transaction that would add one more is refused.
pub const MAX_RECORDS: u64 = 1_000_000;
/// Number of bytes of a file from which a transaction that would add a record is refused.
pub const MAX_BYTES: u64 = 1 << 30;

/// Limits on the size of a ledger.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of lines in the journal, at least 1.
    pub max_journal_lines: u64,
    /// Maximum number of records.
    pub max_records: u64,
    /// Number of bytes, of the file or in memory, from which no record is added.
    pub max_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            max_journal_lines: MAX_JOURNAL_LINES,
            max_records: MAX_RECORDS,
            max_bytes: MAX_BYTES,
        }
    }
}

/// A store of small records that change by compare-and-swap only.
///
/// Commits have one total order. A committed change is seen by every later read, forever; a record that was read has
/// been committed, and would survive a loss of power now. All calls block.
pub trait Ledger: Send + Sync + 'static {
    /// Reads the records of `keys` in their order, all at the same revision.
    ///
    /// # Errors
    /// [`LedgerError`] when they cannot be read.
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError>;

    /// Reads all records whose keys start with `prefix`, in the keys' order, all at the same revision.
    ///
    /// # Errors
    /// [`LedgerError`] when they cannot be read.
    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError>;

    /// If all expectations hold, makes all writes, adds the line, if any, to the journal, and returns the revision; otherwise
    /// changes nothing.
    ///
    /// # Errors
    /// [`CommitError::Conflict`], [`CommitError::Full`], [`CommitError::TooLarge`] and [`CommitError::OtherTerm`]: nothing
    /// has changed. [`CommitError::Ledger`]: the transaction has happened as a whole or not at all, and it is unknown which.
    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError>;

    /// Reads at most `limit` lines of the journal after the revision `after`.
    ///
    /// # Errors
    /// [`LedgerError`] when it cannot be read.
    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError>;

    /// Reason why the last call failed, until a change has been written since; `None` if the ledger works. Does not
    /// block.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Rewrites existing data, to find out whether a fault has passed. Changes nothing that a reader sees.
    ///
    /// # Errors
    /// [`LedgerError`] while the fault lasts.
    fn probe(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    /// Looks whether the storage is in its place: if not, that is the ledger's fault from now on.
    fn look(&self) {}

    /// Number of bytes that the ledger takes, of its file or in memory; 0 if that is unknown.
    fn n_bytes(&self) -> u64 {
        0
    }

    /// Signal that changes when a fence may have changed, also by another server; `None` where no other server can.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Makes room for another server that waits to commit, if this one keeps it from that. Blocks for a moment; nothing
    /// is committed afterwards.
    fn resign(&self) {}
}

/// Reason why a ledger cannot be read or written now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The storage failed; it may come back.
    #[error("the ledger is not available: {reason}")]
    Unavailable {
        /// Error of the storage.
        reason: String,
    },
    /// The stored data is not in the form that a ledger writes.
    #[error("the ledger is damaged: {reason}")]
    Damaged {
        /// The error in the data.
        reason: String,
    },
}

/// Reason why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A record has another revision than expected.
    #[error("`{}` has changed", key.as_str())]
    Conflict {
        /// The first such record.
        key: Key,
    },
    /// The maximum number of records is reached.
    #[error("the ledger holds {limit} records, and more may not be")]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The maximum number of bytes is reached.
    #[error("the ledger takes more than {limit} bytes, and no record may be added")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The term in which the change was decided is over.
    #[error("another replica may have committed since this was decided")]
    OtherTerm,
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
        // Revisions of new ledgers grow with time: a thousand a millisecond.
        assert!(second.0 >= first.0 + 1_000, "{first} {second}");
    }
}
