//! Files that are no ledger, are damaged, or cannot be written: each has a clear error, and nothing is lost by opening
//! it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_server::ledger::{
    Bounds, CommitError, Embedded, Key, Ledger, LedgerError, Revision, Transaction,
};
use redb::{Database, StorageBackend, TableDefinition};

use crate::ledger::disk::Disk;

fn refused(path: &Path) -> String {
    Embedded::open(path, Revision(0)).unwrap_err().to_string()
}

fn line(text: &str) -> Transaction {
    Transaction { journal: Some(text.as_bytes().to_vec()), ..Transaction::default() }
}

#[test]
fn what_is_no_ledger_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let shown = path.display();
    for text in ["kind: List\n".repeat(1000), "x".to_owned()] {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(
            refused(&path),
            format!("`{shown}` is not a ledger: it does not begin like one")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let nowhere = directory.path().join("nowhere/ledger");
    let error = refused(&nowhere);
    assert!(
        error.starts_with(&format!("cannot open the ledger `{}`: ", nowhere.display())),
        "{error}"
    );
    let error = refused(directory.path());
    assert!(error.contains("cannot open the ledger") && error.contains("directory"), "{error}");

    std::fs::remove_file(&path).unwrap();
    let other = Database::create(&path).unwrap();
    let writing = other.begin_write().unwrap();
    let table: TableDefinition<'_, u64, u64> = TableDefinition::new("primes");
    writing.open_table(table).unwrap().insert(2, 3).unwrap();
    writing.commit().unwrap();
    drop(other);
    let expected = format!("`{shown}` is not a ledger: it is a database with the table `primes`");
    assert_eq!(refused(&path), expected);
}

#[test]
fn a_later_format_and_other_tables_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let shown = path.display();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("berth.ledger.meta");
    drop(Embedded::open(&path, Revision(0)).unwrap());
    let change = |key: &str, value: Option<u64>| {
        let database = Database::open(&path).unwrap();
        let writing = database.begin_write().unwrap();
        match value {
            Some(value) => drop(writing.open_table(meta).unwrap().insert(key, value).unwrap()),
            None => drop(writing.open_table(meta).unwrap().remove(key).unwrap()),
        }
        writing.commit().unwrap();
    };
    change("format", Some(2));
    let expected = format!("the ledger `{shown}` has format 2, and this version of berth knows 1");
    assert_eq!(refused(&path), expected);
    change("format", None);
    assert_eq!(refused(&path), format!("`{shown}` is not a ledger: it says no format"));
    change("format", Some(1));
    change("revision", None);
    assert_eq!(refused(&path), format!("`{shown}` is not a ledger: it has no revision"));
}

#[test]
fn a_ledger_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let first = Embedded::open(&path, Revision(0)).unwrap();
    let expected = format!("the ledger `{}` is in use by another process", path.display());
    assert_eq!(refused(&path), expected);
    first.commit(line("still mine")).unwrap();
    drop(first);
    assert_eq!(Embedded::open(&path, Revision(0)).unwrap().commit(line("mine")), Ok(Revision(2)));
}

/// A copy that does not know the last grants: its next token is larger than theirs, and the journal says what it
/// skipped.
#[test]
fn an_older_copy_repeats_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("ledger"), directory.path().join("copy"));
    let ledger = Embedded::open(&path, Revision(100)).unwrap();
    assert_eq!(ledger.commit(line("known")), Ok(Revision(101)));
    drop(ledger);
    std::fs::copy(&path, &copy).unwrap();
    let ledger = Embedded::open(&path, Revision(200)).unwrap();
    assert_eq!(ledger.commit(line("unknown")), Ok(Revision(201)));
    drop(ledger);
    std::fs::rename(&copy, &path).unwrap();
    // A start without a commit grants nothing, so that it leaves nothing to be skipped.
    for start in [300, 400, 350] {
        drop(Embedded::open(&path, Revision(start)).unwrap());
    }
    let ledger = Embedded::open(&path, Revision(390)).unwrap();
    assert_eq!(ledger.commit(line("again")), Ok(Revision(391)));
    assert_eq!(ledger.commit(line("and again")), Ok(Revision(392)));
    let lines = ledger.journal(Revision(0), 9).unwrap().lines;
    let order: Vec<_> = lines.iter().map(|line| (line.previous.0, line.revision.0)).collect();
    assert_eq!(order, [(100, 101), (101, 391), (391, 392)]);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    drop(Embedded::open(&path, Revision(0)).unwrap());
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Embedded::open(&path, Revision(0)).unwrap());
    assert_eq!(mode(), 0o600, "one of an earlier version");
}

/// A file that is moved away under a running server: nothing is answered from it, another server may begin on the path,
/// and the first one does not take that server's ledger for its own.
#[test]
fn a_moved_file_is_no_ledger_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = (directory.path().join("ledger"), directory.path().join("aside"));
    let first = Embedded::open(&path, Revision(0)).unwrap();
    assert_eq!(first.commit(line("mine")), Ok(Revision(1)));
    std::fs::rename(&path, &aside).unwrap();
    let unavailable = |outcome: Result<Revision, CommitError>| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CommitError::Ledger(LedgerError::Unavailable { .. })), "{error}");
        assert!(first.fault().is_some());
    };
    unavailable(first.commit(line("lost")));
    assert!(first.read(&[Key::volume("v")]).is_err());
    let second = Embedded::open(&path, Revision(1_000)).unwrap();
    assert_eq!(second.commit(line("theirs")), Ok(Revision(1_001)));
    unavailable(first.commit(line("in use")));
    drop(second);
    unavailable(first.commit(line("another ledger")));
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(first.commit(line("back")), Ok(Revision(2)));
    assert_eq!(first.fault(), None);
    std::fs::remove_file(&path).unwrap();
    first.look();
    assert!(first.fault().unwrap().contains("moved or deleted"), "{:?}", first.fault());
}

/// A truncated file, or one with a flipped bit, either opens with every line unchanged or fails with an error that
/// names it.
#[test]
fn a_torn_file_is_an_error_or_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let ledger = Embedded::open(&path, Revision(0)).unwrap();
    for n in 1..=50 {
        let write = (Key::volume(&format!("v{n}")), Some(vec![n; 200]));
        ledger.commit(Transaction { writes: vec![write], ..line("line") }).unwrap();
    }
    // The file as a kill leaves it. All of its lines were acknowledged, so an unreadable one is not an unfinished
    // commit.
    let killed = std::fs::read(&path).unwrap();
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    let mut n_refused = 0;
    let mut check = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        match Embedded::open(&path, Revision(0)) {
            Err(error) => {
                n_refused += 1;
                assert!(error.to_string().contains(&path.display().to_string()), "{what}: {error}");
            }
            Ok(ledger) => {
                assert_eq!(ledger.journal(Revision(0), 99).unwrap().lines.len(), 50, "{what}");
                for n in 1..=50 {
                    let entry = ledger.read(&[Key::volume(&format!("v{n}"))]).unwrap().remove(0);
                    assert_eq!(entry.unwrap().value, [n; 200], "{what}");
                }
            }
        }
    };
    for (file, what) in [(whole, "closed"), (killed, "killed")] {
        for eighths in 1..8 {
            check(&file[..file.len() * eighths / 8], &format!("{what}, cut to {eighths}/8"));
        }
        for at in (0..320).chain((320..file.len()).step_by(file.len() / 120)) {
            let mut turned = file.clone();
            turned[at] ^= 0x10;
            check(&turned, &format!("{what}, bit at {at}"));
        }
    }
    assert!(n_refused >= 7, "only {n_refused} refused");
}

/// A disk with a number of free bytes.
#[derive(Debug)]
struct Small {
    disk: Disk,
    n_free: Arc<AtomicU64>,
}

impl StorageBackend for Small {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let taken = self.n_free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n_free| {
            n_free.checked_sub(data.len() as u64)
        });
        taken.map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        self.disk.write(offset, data)
    }
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let (disk, n_free) = (Disk::default(), Arc::new(AtomicU64::new(u64::MAX)));
    let small = Small { disk: disk.clone(), n_free: n_free.clone() };
    let ledger = Embedded::on(small, Revision(0), Bounds::default()).unwrap();
    ledger.commit(line("a")).unwrap();
    // The probe writes existing content, which changes nothing visible.
    let page = ledger.journal(Revision(0), 9).unwrap();
    assert_eq!((ledger.fault(), ledger.probe()), (None, Ok(())));
    assert_eq!(ledger.journal(Revision(0), 9), Ok(page));
    n_free.store(5_000, Ordering::Relaxed);
    let mut n_written = 1;
    let error = loop {
        match ledger.commit(line("b")) {
            Ok(revision) => {
                n_written += 1;
                assert!(n_written < 1_000, "nothing is written any more");
                assert_eq!(revision, Revision(n_written));
            }
            Err(error) => break error,
        }
    };
    let CommitError::Ledger(LedgerError::Unavailable { .. }) = &error else { panic!("{error}") };
    assert!(matches!(ledger.journal(Revision(0), 9), Err(LedgerError::Unavailable { .. })));
    // The fault stays until a write succeeds; only a file is tried again, no other storage.
    let fault = ledger.fault().unwrap();
    assert!(fault.starts_with("the ledger is not available: "), "{fault}");
    assert!(ledger.probe().is_err() && ledger.fault().is_some());
    drop(ledger);
    let ledger = Embedded::on(disk, Revision(0), Bounds::default()).unwrap();
    let page = ledger.journal(Revision(0), 99).unwrap();
    // A refused commit may have been written as a whole; every acknowledged one is there.
    assert!((n_written..=n_written + 1).contains(&page.last.0), "{n_written} {page:?}");
    assert_eq!(page.lines.len() as u64, page.last.0);
}
