//! The ledger in one file, through redb: a commit is on the disk before it is answered, and the file stays consistent
//! whenever the process or the machine stops.
//!
//! Waiting transactions are written together, with one sync for all of them (`group`). When the storage fails, the file
//! is closed and opened again by the next call, since a full disk may be temporary. It is never created anew then, and
//! it has to contain every commit that was answered: if it is missing or an older copy is in its place, the ledger is
//! unavailable until the file is back. The path is looked at before each answer: a file that was moved away or replaced
//! (`place`) has failed, too. After a failed sync it is unknown which of the bytes that the system shows would survive:
//! then the ledger stays unavailable until the server is started again.

mod group;
mod open;
mod place;
mod skipped;
mod storage;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::atomic::{self, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    StorageBackend, Table, TableError,
};

use super::{
    Bounds, CommitError, Entry, JournalLine, JournalPage, Key, Ledger, LedgerError, Revision,
    Transaction,
};
use group::Group;
pub use open::OpenError;
use open::Opened;
use place::Place;
use storage::Syncs;
use tables::{JOURNAL, LINE_KEY, META, RECORDS, REVISION_KEY, SKIPPED, begin};

/// A ledger in one file.
#[derive(Debug)]
pub struct Embedded {
    /// Path of the file; `None` for other storage, which is not opened again.
    path: Option<PathBuf>,
    database: RwLock<State>,
    /// Revision of the last commit that was answered, or of the last one when the file was opened.
    answered: AtomicU64,
    /// Revision of the last line that was answered, or of the last one when the file was opened.
    line: AtomicU64,
    group: Group,
    syncs: Syncs,
    /// Revision after which this server commits, also where the file has less.
    start: Revision,
    bounds: Bounds,
    /// Length of the file in bytes when it was last looked at; 0 for other storage.
    n_bytes: AtomicU64,
    /// Reason why the last call failed; cleared once something was written since.
    fault: Mutex<Option<String>>,
}

#[derive(Debug)]
enum State {
    Open(Arc<InUse>),
    /// The storage failed; calls that began before may still use the database.
    Failed(Weak<InUse>),
}

/// An open database, and the place of its file; `None` for other storage.
#[derive(Debug)]
struct InUse {
    database: Database,
    place: Option<Place>,
}

impl Embedded {
    /// Opens the ledger in the file `path`, or creates it; the next commit comes after `start` and after all that are in
    /// the file: should it be an older copy, no token is given twice as long as `start` grows with time. Reads the whole
    /// file to check it.
    ///
    /// # Errors
    /// [`OpenError`], which names the file. The file is unchanged then.
    pub fn open(path: &Path, start: Revision) -> Result<Embedded, OpenError> {
        Embedded::open_bounded(path, start, Bounds::default())
    }

    /// Opens the ledger like [`Embedded::open`], with other limits.
    ///
    /// # Errors
    /// The errors of [`Embedded::open`].
    pub fn open_bounded(
        path: &Path,
        start: Revision,
        bounds: Bounds,
    ) -> Result<Embedded, OpenError> {
        let syncs = Syncs::default();
        let opened = open::file(path, &syncs, start)?;
        Ok(Embedded::of(Some(path.to_owned()), opened, syncs, (start, bounds)))
    }

    /// Opens the ledger in other storage, for tests of failing storage.
    ///
    /// # Errors
    /// The errors of [`Embedded::open`], with `storage` as the name.
    pub fn on(
        storage: impl StorageBackend,
        start: Revision,
        bounds: Bounds,
    ) -> Result<Embedded, OpenError> {
        let opened = open::storage(storage, Path::new("storage"), Some(start))?;
        Ok(Embedded::of(None, opened, Syncs::default(), (start, bounds)))
    }

    fn of(
        path: Option<PathBuf>,
        opened: Opened,
        syncs: Syncs,
        (start, bounds): (Revision, Bounds),
    ) -> Embedded {
        let Opened { database, place, last, line } = opened;
        let n_bytes = place.as_ref().and_then(|place| place.check().ok()).unwrap_or_default();
        Embedded {
            path,
            database: RwLock::new(State::Open(Arc::new(InUse { database, place }))),
            answered: AtomicU64::new(last.0),
            line: AtomicU64::new(line.0),
            n_bytes: AtomicU64::new(n_bytes),
            group: Group::default(),
            syncs,
            start,
            bounds,
            fault: Mutex::default(),
        }
    }

    /// The open database; opens it again after a failure.
    fn database(&self) -> Result<Arc<InUse>, LedgerError> {
        if let State::Open(database) =
            &*self.database.read().unwrap_or_else(PoisonError::into_inner)
        {
            return Ok(database.clone());
        }
        let unavailable = |reason: String| LedgerError::Unavailable { reason };
        let mut state = self.database.write().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(database) => return Ok(database.clone()),
            // Commits that they are about to answer have to be in the file that is opened.
            State::Failed(database) if database.strong_count() > 0 => {
                return Err(unavailable("its storage failed, and it is being closed".to_owned()));
            }
            // Pairs with the release of the last of them, so that all revisions that they noted are seen.
            State::Failed(_) => atomic::fence(Ordering::Acquire),
        }
        let path = self.path.as_ref().ok_or_else(|| unavailable("its storage failed".into()))?;
        if self.syncs.have_failed() {
            let reason = format!(
                "`{}` could not be synced, so what it holds is uncertain until the server is started again",
                path.display()
            );
            return Err(unavailable(reason));
        }
        let opened = open::existing(path, &self.syncs);
        let Opened { database, place, last, line } =
            opened.map_err(|error| unavailable(error.to_string()))?;
        let answered = Revision(self.answered.load(Ordering::Relaxed));
        if last < answered {
            let reason = format!(
                "`{}` ends at revision {last}, and {answered} was answered already: it is an older copy",
                path.display()
            );
            return Err(unavailable(reason));
        }
        // Another server may have begun a ledger of its own on the path.
        let answered = Revision(self.line.load(Ordering::Relaxed));
        let knows = open::knows(&database, answered);
        if !knows.map_err(|error| unavailable(error.to_string()))? {
            let reason = format!(
                "`{}` does not have revision {answered}, which was answered: it is another ledger",
                path.display()
            );
            return Err(unavailable(reason));
        }
        self.note_answered(last, line);
        tracing::info!(path = %path.display(), "the ledger is open again");
        let database = Arc::new(InUse { database, place });
        *state = State::Open(database.clone());
        Ok(database)
    }

    /// Runs `call` on the database, and records the reason if it fails.
    fn with<Answer>(
        &self,
        call: impl FnOnce(&Database) -> Result<Answer, redb::Error>,
    ) -> Result<Answer, LedgerError> {
        let outcome = self.run(call);
        if let Err(error) = &outcome {
            self.note_fault(Some(error.to_string()));
        }
        outcome
    }

    /// Runs a call that writes: a successful write proves that a fault has passed. A successful read does not, since a
    /// full disk can be read.
    fn write_with<Answer>(
        &self,
        call: impl FnOnce(&Database) -> Result<Answer, redb::Error>,
    ) -> Result<Answer, LedgerError> {
        let outcome = self.with(call);
        if outcome.is_ok() {
            self.note_fault(None);
        }
        outcome
    }

    fn note_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Checks that the file is in its place, and notes its length.
    fn check_place(&self, place: Option<&Place>) -> Result<(), redb::Error> {
        if let Some(place) = place {
            self.n_bytes.store(place.check()?, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs `call`. A database whose storage failed is not used again; neither is one whose file is not in its place,
    /// before the call or after it.
    fn run<Answer>(
        &self,
        call: impl FnOnce(&Database) -> Result<Answer, redb::Error>,
    ) -> Result<Answer, LedgerError> {
        let database = self.database()?;
        let place = database.place.as_ref();
        let called = self.check_place(place).and_then(|()| call(&database.database));
        let error = match called.and_then(|answer| self.check_place(place).map(|()| answer)) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        tracing::error!("the ledger failed: {error}");
        if let redb::Error::Corrupted(reason) = error {
            return Err(LedgerError::Damaged { reason });
        }
        let mut state = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Another call may have opened the file again meanwhile.
        if matches!(&*state, State::Open(open) if Arc::ptr_eq(open, &database)) {
            *state = State::Failed(Arc::downgrade(&database));
        }
        Err(LedgerError::Unavailable { reason: error.to_string() })
    }

    /// Notes the revisions of an answered commit and of the last line. They are read only while no call uses a
    /// database, so that every commit has been noted.
    fn note_answered(&self, last: Revision, line: Revision) {
        self.answered.fetch_max(last.0, Ordering::Relaxed);
        self.line.fetch_max(line.0, Ordering::Relaxed);
    }
}

impl Ledger for Embedded {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        self.with(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            let read = |key: &Key| {
                let entry = records.get(key.as_str())?;
                Ok(entry.map(|entry| {
                    let (revision, value) = entry.value();
                    Entry { value: value.to_vec(), revision: Revision(revision) }
                }))
            };
            keys.iter().map(read).collect()
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        self.with(|database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            let mut listed = Vec::new();
            for record in records.range(prefix..)? {
                let (key, entry) = record?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                let (revision, value) = entry.value();
                let entry = Entry { value: value.to_vec(), revision: Revision(revision) };
                listed.push((Key::stored(key.value()), entry));
            }
            Ok(listed)
        })
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        self.group.commit(transaction, |transactions| {
            self.write_with(|database| {
                let n_bytes = self.n_bytes.load(Ordering::Relaxed);
                let (answers, line) =
                    write(database, transactions, &self.bounds, (n_bytes, self.start))?;
                // The last committed transaction has the highest revision.
                if let Some(last) = answers.iter().rev().find_map(|answer| answer.as_ref().ok()) {
                    self.note_answered(*last, line);
                }
                Ok(answers)
            })
        })
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let journal = transaction.open_table(JOURNAL)?;
            let last = transaction.open_table(META)?.get(REVISION_KEY)?;
            let skipped = match transaction.open_table(SKIPPED) {
                Ok(skipped) => Some(skipped),
                Err(TableError::TableDoesNotExist(_)) => None,
                Err(error) => return Err(error.into()),
            };
            let before = |revision: u64| -> Result<u64, redb::Error> {
                let one_less = revision.saturating_sub(1);
                let start = skipped.as_ref().map(|skipped| skipped.get(one_less)).transpose()?;
                Ok(start.flatten().map_or(one_less, |last| last.value()))
            };
            let mut lines = Vec::new();
            for line in journal.range(after.next().0..)?.take(limit) {
                let (revision, line) = line?;
                let revision = revision.value();
                let previous = Revision(before(revision)?);
                let revision = Revision(revision);
                lines.push(JournalLine { revision, previous, text: line.value().to_vec() });
            }
            Ok(JournalPage {
                lines,
                oldest: journal.first()?.map(|(revision, _)| Revision(revision.value())),
                last: Revision(last.map_or(0, |last| last.value())),
            })
        })
    }

    fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn probe(&self) -> Result<(), LedgerError> {
        self.write_with(rewrite)
    }

    fn look(&self) {
        // The outcome is noted.
        drop(self.with(|_| Ok(())));
    }

    fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Ordering::Relaxed)
    }
}

/// Rewrites the current revision. Like any change it needs room, and a sync.
fn rewrite(database: &Database) -> Result<(), redb::Error> {
    let writing = begin(database)?;
    {
        let mut meta = writing.open_table(META)?;
        let missing = || redb::Error::Corrupted(format!("`{REVISION_KEY}` is missing"));
        let last = meta.get(REVISION_KEY)?.ok_or_else(missing)?.value();
        meta.insert(REVISION_KEY, last)?;
    }
    Ok(writing.commit()?)
}

/// Writes each of the transactions whose expectations hold after those before it, all with one sync; returns the answers,
/// and the revision of the last line. An error concerns them all: the outcome of each is uncertain then.
fn write<'a>(
    database: &Database,
    transactions: impl Iterator<Item = &'a Transaction>,
    bounds: &Bounds,
    (n_bytes, first): (u64, Revision),
) -> Result<(Vec<Result<Revision, CommitError>>, Revision), redb::Error> {
    let writing = begin(database)?;
    let mut answers = Vec::new();
    let mut meta = writing.open_table(META)?;
    let mut records = writing.open_table(RECORDS)?;
    let mut journal = writing.open_table(JOURNAL)?;
    let missing = || redb::Error::Corrupted(format!("`{REVISION_KEY}` is missing"));
    let before = Revision(meta.get(REVISION_KEY)?.ok_or_else(missing)?.value());
    let start = before.max(first);
    let mut last = start;
    let mut line = meta.get(LINE_KEY)?.map_or(before, |line| Revision(line.value()));
    let mut skips = Vec::new();
    for transaction in transactions {
        if let Some(refusal) = refusal(&records, transaction, bounds, n_bytes)? {
            answers.push(Err(refusal));
            continue;
        }
        last = last.next();
        for (key, value) in &transaction.writes {
            match value {
                Some(value) => drop(records.insert(key.as_str(), (last.0, &**value))?),
                None => drop(records.remove(key.as_str())?),
            }
        }
        if let Some(text) = &transaction.journal {
            if line.next() != last {
                skips.push((line.0, last.0 - 1));
            }
            journal.insert(last.0, &**text)?;
            line = last;
        }
        answers.push(Ok(last));
    }
    while journal.len()? > bounds.max_journal_lines {
        journal.pop_first()?;
    }
    let oldest = journal.first()?.map(|(oldest, _)| oldest.value());
    for skip in skips {
        skipped::note(&mut writing.open_table(SKIPPED)?, skip, oldest)?;
    }
    meta.insert(REVISION_KEY, last.0)?;
    match line == last {
        true => drop(meta.remove(LINE_KEY)?),
        false => drop(meta.insert(LINE_KEY, line.0)?),
    }
    drop((meta, records, journal));
    // Without a write there is nothing to wait for: the refusals depend on commits that are on the disk already.
    if last == start {
        writing.abort()?
    } else {
        writing.commit()?
    }
    Ok((answers, line))
}

/// Reason why a transaction may not be written to a file of `n_bytes`.
fn refusal(
    records: &Table<'_, &str, (u64, &[u8])>,
    transaction: &Transaction,
    bounds: &Bounds,
    n_bytes: u64,
) -> Result<Option<CommitError>, redb::Error> {
    for (key, expected) in &transaction.expectations {
        let revision = records.get(key.as_str())?.map(|entry| Revision(entry.value().0));
        if revision != *expected {
            return Ok(Some(CommitError::Conflict { key: key.clone() }));
        }
    }
    let mut n_added = 0;
    for (key, value) in &transaction.writes {
        n_added += u64::from(value.is_some() && records.get(key.as_str())?.is_none());
    }
    if n_added == 0 {
        return Ok(None);
    }
    if n_bytes >= bounds.max_bytes {
        return Ok(Some(CommitError::TooLarge { limit: bounds.max_bytes }));
    }
    let limit = bounds.max_records;
    let is_full = records.len()? + n_added > limit;
    Ok(is_full.then_some(CommitError::Full { limit }))
}
