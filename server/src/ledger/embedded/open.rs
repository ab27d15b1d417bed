//! Opens or creates a ledger in a file, or finds the reason why the file is not one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase as _, StorageBackend, StorageError, TableError,
    TableHandle as _,
};

use super::place::Place;
use super::storage::{Syncs, Watched};
use super::tables::{
    CACHE_BYTES, FORMAT, FORMAT_KEY, JOURNAL, LINE_KEY, META, RECORDS, REVISION_KEY, SKIPPED, begin,
};
use crate::clock;
use crate::ledger::Revision;

/// Length of a file from which it is compacted when it is opened, if less than half of it is used.
const COMPACTED_BYTES: u64 = 16 << 20;

/// Reason why a file cannot be used as a ledger.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system cannot open the file.
    #[error("cannot open the ledger `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process uses the file.
    #[error("the ledger `{}` is in use by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a ledger.
    #[error("`{}` is not a ledger: {reason}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// Description of the contents, as far as known.
        reason: String,
    },
    /// The file is a damaged ledger.
    #[error("the ledger `{}` is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// The file was written by a later version of Berth.
    #[error("the ledger `{}` has format {found}, and this version of berth knows {FORMAT}", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u64,
    },
}

impl OpenError {
    /// Advice for an operator.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            OpenError::Io { .. } => {
                "a ledger is a file that this user may read and write, in a directory where it may make one"
            }
            OpenError::InUse { .. } => "a ledger has one server; stop the other one first",
            OpenError::NotALedger { .. } => {
                "it is left as it is; name another file, or put the ledger back in its place"
            }
            OpenError::Damaged { .. } => {
                "it is left as it is; put a copy back in its place. Who moves it away begins anew, and every grant is forgotten"
            }
            OpenError::OtherFormat { .. } => {
                "run the version of berth that wrote it, or a later one"
            }
        }
    }
}

/// An open ledger.
pub(super) struct Opened {
    pub(super) database: Database,
    /// Place of its file; `None` for other storage.
    pub(super) place: Option<Place>,
    /// Revision after which the next commit comes.
    pub(super) last: Revision,
    /// Revision of the last line of the journal, or the start of the ledger.
    pub(super) line: Revision,
}

/// Opens the ledger in a file, or creates it; its next commit comes after `start`, too.
pub(super) fn file(path: &Path, syncs: &Syncs, start: Revision) -> Result<Opened, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    if !path.try_exists().map_err(failed)? {
        create(path, start)?;
        tracing::warn!(path = %path.display(), %start, "a new ledger is begun: there was none");
    }
    let mut opened = existing(path, syncs)?;
    compact(&mut opened, path)?;
    // Also for an existing file: its creator may have been killed before the directory was synced.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).map_err(failed)?;
    directory.sync_all().map_err(failed)?;
    Ok(opened)
}

/// Opens the ledger in an existing file.
pub(super) fn existing(path: &Path, syncs: &Syncs) -> Result<Opened, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        // redb would create a new database in it, so that an emptied ledger would go unnoticed.
        let reason = "it is empty".to_owned();
        return Err(OpenError::NotALedger { path: path.to_owned(), reason });
    }
    make_private(&file, path).map_err(failed)?;
    // Data that a killed process had written but not synced is visible here; it must be durable before it is used.
    file.sync_all().map_err(failed)?;
    let place = Place::of(path, &file).map_err(failed)?;
    let opened = storage(Watched::new(backend(file, path)?, syncs.clone()), path, None)?;
    // A server that was just started has the lock of the file that it opened, not of the path.
    place.check().map_err(failed)?;
    Ok(Opened { place: Some(place), ..opened })
}

/// Takes the rights of everybody but the owner from the file: it says who runs what where.
fn make_private(file: &File, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mut permissions = file.metadata()?.permissions();
        if permissions.mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "others had rights on the ledger, now only its owner has");
            permissions.set_mode(0o600);
            file.set_permissions(permissions)?;
        }
    }
    #[cfg(not(unix))]
    let _ = (file, path);
    Ok(())
}

/// Gives the room of removed records back to the file system, where it is most of the file.
fn compact(opened: &mut Opened, path: &Path) -> Result<(), OpenError> {
    let n_bytes = opened.place.as_ref().and_then(|place| place.check().ok()).unwrap_or_default();
    if n_bytes < COMPACTED_BYTES {
        return Ok(());
    }
    let failed = |error: redb::Error| error_of(path, error);
    let writing = opened.database.begin_write().map_err(|error| failed(error.into()))?;
    let stats = writing.stats().map_err(|error| failed(error.into()))?;
    writing.abort().map_err(|error| failed(error.into()))?;
    let n_used = stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    if n_used < n_bytes / 2 {
        match opened.database.compact() {
            Ok(_) => {
                tracing::info!(path = %path.display(), n_bytes, n_used, "the ledger was compacted")
            }
            Err(redb::CompactionError::Storage(error)) => return Err(failed(error.into())),
            Err(error) => tracing::warn!(%error, "the ledger was not compacted"),
        }
    }
    Ok(())
}

/// Whether a ledger has a line of this revision, or began with it.
pub(super) fn knows(database: &Database, revision: Revision) -> Result<bool, redb::Error> {
    let reading = database.begin_read()?;
    let meta = reading.open_table(META)?;
    let last = match meta.get(LINE_KEY)? {
        Some(line) => Some(line.value()),
        None => meta.get(REVISION_KEY)?.map(|last| last.value()),
    };
    let is_start = match reading.open_table(SKIPPED) {
        Ok(skipped) => skipped.get(revision.0)?.is_some(),
        Err(TableError::TableDoesNotExist(_)) => false,
        Err(error) => return Err(error.into()),
    };
    let journal = reading.open_table(JOURNAL)?;
    Ok(last == Some(revision.0) || is_start || journal.get(revision.0)?.is_some())
}

/// Creates a ledger in a temporary file and then renames it to `path`, so that a file of that name is always complete.
fn create(path: &Path, start: Revision) -> Result<(), OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    // A unique name: several servers may start at once, and process ids repeat between containers.
    let name = format!(".berth-{}-{}.new", std::process::id(), clock::unix_micros());
    let beside = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&beside).map_err(failed)?;
    let made = storage(backend(file, path)?, path, Some(start));
    let named = made.and_then(|made| {
        // Closes the database, which writes.
        drop(made);
        File::open(&beside).and_then(|file| file.sync_all()).map_err(failed)?;
        give_name(&beside, path).map_err(failed)
    });
    drop(fs::remove_file(&beside));
    named
}

/// Gives the new file its name, never replacing another file if the file system supports that.
fn give_name(beside: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(beside, path) {
        // Another server was faster: its ledger is used.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => fs::rename(beside, path),
        Ok(()) => Ok(()),
    }
}

fn backend(file: File, path: &Path) -> Result<FileBackend, OpenError> {
    FileBackend::new(file).map_err(|error| database_error(path, error))
}

/// Opens the ledger in other storage, or creates one there that begins at `start`. `path` is for errors.
pub(super) fn storage(
    storage: impl StorageBackend,
    path: &Path,
    start: Option<Revision>,
) -> Result<Opened, OpenError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let database =
        builder.create_with_backend(storage).map_err(|error| database_error(path, error))?;
    let (last, line) = check(&database, path, start)?;
    Ok(Opened { database, place: None, last, line })
}

/// Returns the revisions of the last commit and of the last line, if the tables are a ledger's; creates them if there are
/// none.
fn check(
    database: &Database,
    path: &Path,
    start: Option<Revision>,
) -> Result<(Revision, Revision), OpenError> {
    let failed = |error: redb::Error| error_of(path, error);
    let reading = database.begin_read().map_err(|error| failed(error.into()))?;
    let tables = reading.list_tables().map_err(|error| failed(error.into()))?;
    let names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
    let not_a_ledger = |reason: String| OpenError::NotALedger { path: path.to_owned(), reason };
    if names.is_empty() {
        drop(reading);
        let start = start.ok_or_else(|| not_a_ledger("it is an empty database".to_owned()))?;
        return make(database, start).map_err(failed).map(|()| (start, start));
    }
    if !names.iter().any(|name| name == META.name()) {
        return Err(not_a_ledger(format!("it is a database with the table `{}`", names[0])));
    }
    let table = |error: TableError| match error {
        TableError::Storage(error) => failed(error.into()),
        error => not_a_ledger(error.to_string()),
    };
    let meta = reading.open_table(META).map_err(table)?;
    reading.open_table(RECORDS).map_err(table)?;
    reading.open_table(JOURNAL).map_err(table)?;
    let get = |key: &str| meta.get(key).map_err(|error| failed(error.into()));
    match get(FORMAT_KEY)?.map(|found| found.value()) {
        Some(FORMAT) => {}
        Some(found) => return Err(OpenError::OtherFormat { path: path.to_owned(), found }),
        None => return Err(not_a_ledger("it says no format".to_owned())),
    }
    match get(REVISION_KEY)? {
        Some(last) => {
            let line = get(LINE_KEY)?.map_or(last.value(), |line| line.value());
            Ok((Revision(last.value()), Revision(line)))
        }
        None => Err(not_a_ledger("it has no revision".to_owned())),
    }
}

/// Creates the tables, all in one commit.
fn make(database: &Database, start: Revision) -> Result<(), redb::Error> {
    let writing = begin(database)?;
    {
        let mut meta = writing.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT)?;
        meta.insert(REVISION_KEY, start.0)?;
        writing.open_table(RECORDS)?;
        writing.open_table(JOURNAL)?;
    }
    Ok(writing.commit()?)
}

fn database_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            OpenError::InUse { path }
        }
        DatabaseError::UpgradeRequired(version) => OpenError::NotALedger {
            path,
            reason: format!("it is a database of the old file format {version}"),
        },
        DatabaseError::Storage(StorageError::Io(source)) => io_error(path, source),
        DatabaseError::Storage(error) => OpenError::Damaged { path, reason: error.to_string() },
        error => OpenError::Damaged { path, reason: error.to_string() },
    }
}

fn error_of(path: &Path, error: redb::Error) -> OpenError {
    let path = path.to_owned();
    match error {
        redb::Error::Io(source) => io_error(path, source),
        error => OpenError::Damaged { path, reason: error.to_string() },
    }
}

fn io_error(path: PathBuf, source: io::Error) -> OpenError {
    match source.kind() {
        io::ErrorKind::InvalidData => {
            OpenError::NotALedger { path, reason: "it does not begin like one".to_owned() }
        }
        io::ErrorKind::UnexpectedEof => {
            OpenError::Damaged { path, reason: "it ends too early".to_owned() }
        }
        _ => OpenError::Io { path, source },
    }
}
