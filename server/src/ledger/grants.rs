//! The grants in a ledger, independent of its storage: each method is decided by `berth_engine::lifecycle` on the
//! current records and committed by one transaction (L-DEL-10, L-TEST-10).
//!
//! A token of 0 in a record means that the grant was made by the commit that wrote the record: no store has to know a
//! revision before it commits. [`Record::read`] replaces the 0 by the revision.

use std::sync::Arc;

use berth_engine::ModelError;
use berth_engine::lifecycle::fence::FenceState;
use berth_proto::Time;
use berth_proto::berth_v1::{LedgerRecord, ListLedgerRecordsRequest, ListLedgerRecordsResponse};
use prost::Message;
use tokio::sync::watch;

use super::claim::{Contradiction, Witness};
use super::{CommitError, Entry, JournalLine, Key, Ledger, LedgerError, Revision, Transaction};

/// Number of attempts to decide anew because another commit came between.
const MAX_ATTEMPTS: usize = 100;

const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 1_000;

/// Maximum length of a name, uid and actor, in bytes: what Kubernetes allows for a name.
pub const MAX_NAME_BYTES: usize = 253;

/// The grants in a ledger.
pub struct Grants {
    ledger: Arc<dyn Ledger>,
}

/// A call of a method: who makes it, when, and what the server can check of it.
#[derive(Copy, Clone)]
pub struct Call<'a> {
    /// Authenticated user, for the journal (L-GRANT-3).
    pub user: &'a str,
    /// Time in seconds since the epoch, for the journal. It decides nothing.
    pub now: i64,
    /// What the server has seen of the cluster.
    pub witness: &'a dyn Witness,
    /// The names that the user may release by force.
    pub force: ForceRight,
}

/// The names that a user may release by force (L-GRANT-5).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ForceRight {
    /// All names.
    All,
    /// Names that the user acquired.
    Own,
}

/// Reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The request is malformed.
    #[error(transparent)]
    Request(#[from] ModelError),
    /// The change rests on a claim that this server's cluster contradicts (L-GRANT-1).
    #[error(transparent)]
    Contradicted(#[from] Contradiction),
    /// The user may not release this name by force: another user acquired it (L-GRANT-5).
    #[error("user `{user}` did not acquire this name, and may not release it by force")]
    NotOwner {
        /// The user of the call.
        user: String,
    },
    /// Other commits came between too often.
    #[error("other changes of `{}` came between too often", key.as_str())]
    Contended {
        /// The record that the other commits changed.
        key: Key,
    },
    /// A volume has the maximum number of holders.
    #[error("the volume has {limit} holders, and more may not be")]
    TooManyHolders {
        /// The limit.
        limit: usize,
    },
    /// The ledger has the maximum number of records.
    #[error("the ledger holds {limit} records, and more may not be")]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The ledger takes the maximum number of bytes.
    #[error("the ledger takes more than {limit} bytes, and no record may be added")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A record is larger than the ledger takes.
    #[error("a record of the ledger has at most {limit} bytes")]
    RecordTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The term in which the change was decided is over.
    #[error("another replica may have committed since this was decided")]
    OtherTerm,
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Record of one subject.
pub(super) trait Record: Message + Default {
    /// Replaces the token of each grant that is 0 by `granted`.
    fn resolve(&mut self, granted: u64);

    /// The record in an entry; the default one if there is none.
    fn read(key: &Key, entry: Option<&Entry>) -> Result<Self, GrantError> {
        let Some(entry) = entry else { return Ok(Self::default()) };
        let mut record = Self::decode(&*entry.value).map_err(|error| damaged(key, &error))?;
        record.resolve(entry.revision.0);
        Ok(record)
    }
}

/// The error for a record that cannot be decoded.
pub(super) fn damaged(key: &Key, reason: &impl ToString) -> GrantError {
    let reason = format!("`{}`: {}", key.as_str(), reason.to_string());
    GrantError::Ledger(LedgerError::Damaged { reason })
}

/// Decision of a method.
#[expect(clippy::large_enum_variant, reason = "moved once, on its way to the commit")]
pub(super) enum Verdict<Answer> {
    /// The records stay unchanged.
    Stands(Answer),
    /// The records change.
    Changes {
        /// New values of records that were read; empty if only the journal gets a line.
        writes: Vec<(Key, Option<Vec<u8>>)>,
        /// The line for the journal; revision and time are filled in later.
        line: LedgerRecord,
        /// Makes the answer, once the revision is known.
        answer: Box<dyn FnOnce(Revision) -> Answer>,
    },
}

impl Grants {
    /// The grants in `ledger`.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>) -> Grants {
        Grants { ledger }
    }

    /// The ledger itself.
    pub(crate) fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// Reason why nothing is granted now, as far as the last call shows; `None` if the ledger works.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.ledger.fault()
    }

    /// Tries whether a fault has passed, and clears it if so. Blocks.
    ///
    /// # Errors
    /// [`LedgerError`] while the fault lasts.
    pub fn probe(&self) -> Result<(), LedgerError> {
        self.ledger.probe()
    }

    /// Looks whether the ledger's file is in its place, so that its loss shows before the next call. Blocks.
    pub fn look(&self) {
        self.ledger.look();
    }

    /// Signal that changes when a fence may have changed, also by another server; `None` where no other server can.
    #[must_use]
    pub fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.ledger.changes()
    }

    /// Makes room for another server that waits to commit. Blocks for a moment.
    pub fn resign(&self) {
        self.ledger.resign();
    }

    /// Number of bytes that the ledger takes.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.ledger.n_bytes()
    }

    /// Calls `decide` with the records of `keys`, and commits its decision if they are still unchanged then; otherwise
    /// decides anew.
    ///
    /// The journal names the user of the call, and `claimed_actor` beside it (L-GRANT-3).
    pub(super) fn attempt<Answer>(
        &self,
        keys: &[Key],
        call: &Call<'_>,
        claimed_actor: &str,
        decide: impl Fn(&[Option<Entry>]) -> Result<Verdict<Answer>, GrantError>,
    ) -> Result<Answer, GrantError> {
        let mut contended = None;
        for _ in 0..MAX_ATTEMPTS {
            let entries = self.read(keys)?;
            let (writes, line, answer) = match decide(&entries)? {
                Verdict::Stands(answer) => return Ok(answer),
                Verdict::Changes { writes, line, answer } => (writes, line, answer),
            };
            let revisions = entries.iter().map(|entry| entry.as_ref().map(|entry| entry.revision));
            let line = LedgerRecord {
                time: Some(Time::from_unix_seconds(call.now)),
                actor: call.user.to_owned(),
                claimed_actor: claimed_actor.to_owned(),
                ..line
            };
            let transaction = Transaction {
                expectations: keys.iter().cloned().zip(revisions).collect(),
                writes,
                journal: Some(line.encode_to_vec()),
                term: None,
            };
            match self.ledger.commit(transaction) {
                Ok(revision) => {
                    log(&line, revision);
                    return Ok(answer(revision));
                }
                Err(CommitError::Conflict { key }) => contended = Some(key),
                Err(CommitError::Full { limit }) => return Err(GrantError::Full { limit }),
                Err(CommitError::TooLarge { limit }) => {
                    return Err(GrantError::TooLarge { limit });
                }
                Err(CommitError::Ledger(error)) => return Err(error.into()),
                Err(CommitError::OtherTerm) => return Err(GrantError::OtherTerm),
            }
        }
        let key = contended.unwrap_or_else(|| keys[0].clone());
        Err(GrantError::Contended { key })
    }

    /// Reads the records of `keys`, all at the same revision.
    pub(super) fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, GrantError> {
        Ok(self.ledger.read(keys)?)
    }

    /// Reads all records whose keys start with `prefix`.
    pub(super) fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, GrantError> {
        Ok(self.ledger.list(prefix)?)
    }

    /// Reads the record of `key`.
    pub(super) fn get<Kept: Record>(&self, key: &Key) -> Result<Kept, GrantError> {
        let entries = self.read(std::slice::from_ref(key))?;
        Kept::read(key, entries.first().and_then(Option::as_ref))
    }

    /// The method `ListLedgerRecords`: reads the journal (L-DEL-10).
    ///
    /// # Errors
    /// [`GrantError::Ledger`].
    pub fn list_ledger_records(
        &self,
        request: &ListLedgerRecordsRequest,
        _call: &Call<'_>,
    ) -> Result<ListLedgerRecordsResponse, GrantError> {
        let page_size = match usize::try_from(request.page_size).unwrap_or(MAX_PAGE_SIZE) {
            0 => DEFAULT_PAGE_SIZE,
            requested => requested.min(MAX_PAGE_SIZE),
        };
        let page = self.ledger.journal(Revision(request.after_revision), page_size)?;
        let record = |line: JournalLine| {
            let JournalLine { revision, previous, text } = line;
            let record = LedgerRecord::decode(&*text).map_err(|error| {
                let reason = format!("line {revision} of the journal: {error}");
                LedgerError::Damaged { reason }
            })?;
            Ok(resolved(record, revision, previous))
        };
        let records: Result<_, LedgerError> = page.lines.into_iter().map(record).collect();
        Ok(ListLedgerRecordsResponse {
            records: records?,
            revision: page.last.0,
            oldest_revision: page.oldest.map_or(0, |oldest| oldest.0),
        })
    }
}

/// A line in the form that callers get. A decision to fence has the revision of its commit as token. Lines from before
/// users were recorded have as actor what the request claimed.
fn resolved(mut line: LedgerRecord, revision: Revision, previous: Revision) -> LedgerRecord {
    if line.claimed_actor.is_empty() {
        line.claimed_actor = std::mem::take(&mut line.actor);
    }
    let is_decision = line.outcome == FenceState::Fencing.word();
    let fence_token = if is_decision { revision.0 } else { line.fence_token };
    let (revision, previous_revision) = (revision.0, previous.0);
    LedgerRecord { revision, previous_revision, fence_token, ..line }
}

/// Logs releases and breaks too, since the log outlives the journal.
fn log(line: &LedgerRecord, revision: Revision) {
    if line.entitlement.is_empty() {
        return;
    }
    let LedgerRecord { actor, claimed_actor, subject, outcome, entitlement, .. } = line;
    let LedgerRecord { pod_uid, node_name, verified, .. } = line;
    if line.is_unsafe {
        tracing::warn!(
            %revision, ?actor, ?claimed_actor, ?subject, ?pod_uid, outcome, entitlement, verified,
            "released while a process of it may be running: data may be lost"
        );
    } else {
        tracing::info!(
            %revision, ?actor, ?claimed_actor, ?subject, ?pod_uid, ?node_name, outcome, entitlement, verified,
            "released"
        );
    }
}

/// Checks a name or uid for a key (see [`Key`]).
pub(super) fn name(text: &str, field: &str) -> Result<(), ModelError> {
    if text.is_empty() {
        return Err(ModelError::new(field, "required"));
    }
    if text.len() > MAX_NAME_BYTES {
        let reason = format!("has {} bytes, and at most {MAX_NAME_BYTES} may be", text.len());
        return Err(ModelError::new(field, reason));
    }
    let is_bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    match text.chars().find(|&c| is_bad(c)) {
        Some(c) => Err(ModelError::new(field, format!("`{text}` may not hold {c:?}"))),
        None => Ok(()),
    }
}

/// Checks a name that may be absent.
pub(super) fn optional_name(text: &str, field: &str) -> Result<(), ModelError> {
    if text.is_empty() { Ok(()) } else { name(text, field) }
}

/// Checks the actor for the journal: any one line.
pub(super) fn actor(text: &str) -> Result<(), ModelError> {
    let error = |reason: String| Err(ModelError::new("actor", reason));
    if text.trim().is_empty() {
        return error("required".to_owned());
    }
    if text.len() > MAX_NAME_BYTES {
        return error(format!("has {} bytes, and at most {MAX_NAME_BYTES} may be", text.len()));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => error(format!("`{text}` may not hold {c:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::claim::Blind;
    use super::*;

    /// L-GRANT-3: lines of a ledger from before users were recorded.
    #[test]
    fn old_lines_have_only_a_claimed_actor() {
        let old = LedgerRecord { actor: "node-agent".to_owned(), ..LedgerRecord::default() };
        let new = LedgerRecord {
            actor: "jane".to_owned(),
            claimed_actor: "agent".to_owned(),
            ..old.clone()
        };
        for (line, expected) in [(old, ["", "node-agent"]), (new, ["jane", "agent"])] {
            let line = resolved(line, Revision(7), Revision(6));
            assert_eq!([&*line.actor, &*line.claimed_actor], expected);
        }
    }

    #[test]
    fn names_are_bounded_and_make_keys_apart() {
        let refused = |text: &str| name(text, "podUID").unwrap_err().to_string();
        assert_eq!(refused(""), "`podUID`: required");
        assert_eq!(refused("a/b"), "`podUID`: `a/b` may not hold '/'");
        assert_eq!(refused("a\n"), "`podUID`: `a\n` may not hold '\\n'");
        assert_eq!(refused(&"a".repeat(254)), "`podUID`: has 254 bytes, and at most 253 may be");
        assert_eq!(name(&"ж".repeat(126), "name"), Ok(()));
        assert_eq!(optional_name("", "nodeName"), Ok(()));
        assert!(optional_name(" ", "nodeName").is_err());
        assert_eq!(actor("system:node/n1 (agent)"), Ok(()));
        assert_eq!(actor(" ").unwrap_err().to_string(), "`actor`: required");
        assert!(actor("a\u{1b}[31m").is_err() && actor(&"a".repeat(254)).is_err());
    }

    /// A ledger in which another commit always comes between.
    struct Busy;

    impl Ledger for Busy {
        fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
            Ok(vec![None; keys.len()])
        }

        fn list(&self, _: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
            Ok(Vec::new())
        }

        fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
            Err(CommitError::Conflict { key: transaction.expectations[0].0.clone() })
        }

        fn journal(
            &self,
            _: Revision,
            _: usize,
        ) -> Result<crate::ledger::JournalPage, LedgerError> {
            Ok(crate::ledger::JournalPage::default())
        }
    }

    #[test]
    fn attempts_end() {
        let grants = Grants::new(Arc::new(Busy));
        let key = Key::volume("v");
        let n_attempts = std::cell::Cell::new(0);
        let call = Call { user: "u", now: 0, witness: &Blind, force: ForceRight::All };
        let answer = grants.attempt(std::slice::from_ref(&key), &call, "me", |_| {
            n_attempts.set(n_attempts.get() + 1);
            Ok(Verdict::Changes {
                writes: vec![(key.clone(), None)],
                line: LedgerRecord::default(),
                answer: Box::new(|revision| revision),
            })
        });
        assert_eq!(answer, Err(GrantError::Contended { key: key.clone() }));
        assert_eq!(n_attempts.get(), MAX_ATTEMPTS);
    }
}
