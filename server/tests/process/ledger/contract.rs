//! The contract of ledgers, checked on each implementation.

use std::slice;

use berth_server::ledger::{
    Bounds, CommitError, Embedded, Entry, JournalLine, Key, Ledger, Memory, Revision, Transaction,
};

use crate::ledger::disk::Disk;
use crate::ledger::replica::Replica;

const SMALL: Bounds = Bounds { max_journal_lines: 3, max_records: 2, max_bytes: u64::MAX };

/// Runs `check` on an empty ledger of each kind that begins at 10.
fn check(check: impl Fn(&dyn Ledger)) {
    let start = Revision(10);
    check(&Memory::bounded(start, SMALL));
    check(&Embedded::on(Disk::default(), start, SMALL).unwrap());
    let directory = tempfile::tempdir().unwrap();
    check(&Embedded::open_bounded(&directory.path().join("ledger"), start, SMALL).unwrap());
    if let Some(replica) = Replica::alone(start, SMALL) {
        check(replica.ledger());
    }
}

fn write(key: &Key, expected: Option<u64>, value: Option<&str>) -> Transaction {
    Transaction {
        expectations: vec![(key.clone(), expected.map(Revision))],
        writes: vec![(key.clone(), value.map(|value| value.as_bytes().to_vec()))],
        journal: Some(value.unwrap_or("removed").as_bytes().to_vec()),
        term: None,
    }
}

fn conflict(key: &Key) -> Result<Revision, CommitError> {
    Err(CommitError::Conflict { key: key.clone() })
}

fn entry(value: &str, revision: u64) -> Option<Entry> {
    Some(Entry { value: value.as_bytes().to_vec(), revision: Revision(revision) })
}

#[test]
fn a_record_changes_only_from_what_was_expected() {
    check(|ledger| {
        let v = Key::volume("v");
        assert_eq!(ledger.read(slice::from_ref(&v)).unwrap(), [None]);
        assert_eq!(ledger.commit(write(&v, Some(1), Some("x"))), conflict(&v));
        assert_eq!(ledger.commit(write(&v, None, Some("a"))), Ok(Revision(11)));
        assert_eq!(ledger.commit(write(&v, None, Some("b"))), conflict(&v));
        assert_eq!(ledger.commit(write(&v, Some(10), Some("b"))), conflict(&v));
        assert_eq!(ledger.read(slice::from_ref(&v)).unwrap(), [entry("a", 11)]);
        assert_eq!(ledger.commit(write(&v, Some(11), Some("b"))), Ok(Revision(12)));
        assert_eq!(ledger.read(slice::from_ref(&v)).unwrap(), [entry("b", 12)]);
        assert_eq!(ledger.commit(write(&v, Some(12), None)), Ok(Revision(13)));
        assert_eq!(ledger.read(slice::from_ref(&v)).unwrap(), [None]);
        // A record that was removed and created again is another one.
        assert_eq!(ledger.commit(write(&v, None, Some("c"))), Ok(Revision(14)));
        assert_eq!(ledger.commit(write(&v, Some(11), Some("d"))), conflict(&v));
    });
}

#[test]
fn a_transaction_is_whole_or_nothing() {
    check(|ledger| {
        let (v, f) = (Key::volume("v"), Key::fence("n"));
        ledger.commit(write(&v, None, Some("v"))).unwrap();
        let both = |fence: Option<u64>| Transaction {
            expectations: vec![(v.clone(), Some(Revision(11))), (f.clone(), fence.map(Revision))],
            writes: vec![(v.clone(), Some(b"w".to_vec())), (f.clone(), Some(b"f".to_vec()))],
            journal: Some(b"both".to_vec()),
            term: None,
        };
        assert_eq!(ledger.commit(both(Some(3))), conflict(&f));
        assert_eq!(ledger.read(&[f.clone(), v.clone()]).unwrap(), [None, entry("v", 11)]);
        assert_eq!(ledger.commit(both(None)), Ok(Revision(12)));
        assert_eq!(ledger.read(&[f.clone(), v.clone()]).unwrap(), [entry("f", 12), entry("w", 12)]);
        // Compared but not written: a record on which the decision depends.
        let rests = Transaction { writes: Vec::new(), ..both(Some(11)) };
        assert_eq!(ledger.commit(rests), conflict(&v));
    });
}

#[test]
fn records_are_listed_by_prefix() {
    check(|ledger| {
        assert_eq!(ledger.list("fence/").unwrap(), []);
        let [v, a] = [Key::volume("n"), Key::fence("a")];
        ledger.commit(write(&v, None, Some("v"))).unwrap();
        ledger.commit(write(&a, None, Some("a"))).unwrap();
        let listed = |prefix: &str| {
            let listed = ledger.list(prefix).unwrap();
            listed.into_iter().map(|(key, entry)| (key, Some(entry))).collect::<Vec<_>>()
        };
        assert_eq!(listed("fence/"), [(a.clone(), entry("a", 12))]);
        assert_eq!(listed("identity/"), []);
        let all = [(a.clone(), entry("a", 12)), (v.clone(), entry("v", 11))];
        assert_eq!(listed(""), all, "in the order of the keys");
        ledger.commit(write(&a, Some(12), None)).unwrap();
        assert_eq!(listed("fence/"), []);
    });
}

#[test]
fn the_journal_has_no_gaps_and_a_bound() {
    check(|ledger| {
        let v = Key::volume("v");
        let page = ledger.journal(Revision(0), 9).unwrap();
        assert_eq!((page.lines.len(), page.oldest, page.last), (0, None, Revision(10)));
        let mut expected = None;
        for (n, value) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            ledger.commit(write(&v, expected, Some(value))).unwrap();
            expected = Some(11 + n as u64);
            ledger.commit(write(&v, Some(1), Some("refused"))).unwrap_err();
        }
        let line = |revision: u64, line: &str| JournalLine {
            revision: Revision(revision),
            previous: Revision(revision - 1),
            text: line.as_bytes().to_vec(),
        };
        let page = ledger.journal(Revision(0), 9).unwrap();
        assert_eq!(page.lines, [line(13, "c"), line(14, "d"), line(15, "e")]);
        assert_eq!((page.oldest, page.last), (Some(Revision(13)), Revision(15)));
        assert_eq!(ledger.journal(Revision(13), 1).unwrap().lines, [line(14, "d")]);
        assert_eq!(ledger.journal(Revision(15), 1).unwrap().lines, []);
        assert_eq!(ledger.journal(Revision(u64::MAX), 1).unwrap().lines, []);
    });
}

#[test]
fn a_commit_without_a_line_leaves_no_gap_in_the_journal() {
    check(|ledger| {
        let (v, r) = (Key::volume("v"), Key::volume("r"));
        let silent = |value: &str| Transaction {
            writes: vec![(r.clone(), Some(value.as_bytes().to_vec()))],
            ..Transaction::default()
        };
        assert_eq!(ledger.commit(silent("a")), Ok(Revision(11)));
        assert_eq!(ledger.read(slice::from_ref(&r)).unwrap(), [entry("a", 11)]);
        let page = ledger.journal(Revision(0), 9).unwrap();
        assert_eq!((page.lines.len(), page.oldest, page.last), (0, None, Revision(11)));
        let mut expected = None;
        for (n, value) in ["12", "14", "16", "18"].into_iter().enumerate() {
            let revision = 12 + 2 * n as u64;
            assert_eq!(ledger.commit(write(&v, expected, Some(value))), Ok(Revision(revision)));
            assert_eq!(ledger.commit(silent("b")), Ok(Revision(revision + 1)));
            expected = Some(revision);
            let lines = ledger.journal(Revision(0), 9).unwrap().lines;
            let first = if n == 0 { Revision(10) } else { Revision(revision - 2) };
            assert_eq!(lines.last().unwrap().previous, first);
        }
        let page = ledger.journal(Revision(0), 9).unwrap();
        let lines = page.lines.iter().map(|line| (line.revision.0, line.previous.0));
        assert_eq!(lines.collect::<Vec<_>>(), [(14, 12), (16, 14), (18, 16)]);
        assert_eq!((page.oldest, page.last), (Some(Revision(14)), Revision(19)));
    });
}

#[test]
fn records_have_a_bound() {
    check(|ledger| {
        let [a, b, c] = ["a", "b", "c"].map(Key::volume);
        ledger.commit(write(&a, None, Some("a"))).unwrap();
        ledger.commit(write(&b, None, Some("b"))).unwrap();
        let full = Err(CommitError::Full { limit: 2 });
        assert_eq!(ledger.commit(write(&c, None, Some("c"))), full);
        assert_eq!(ledger.commit(write(&a, Some(11), Some("aa"))), Ok(Revision(13)));
        assert_eq!(ledger.commit(write(&b, Some(12), None)), Ok(Revision(14)));
        assert_eq!(ledger.commit(write(&c, None, Some("c"))), Ok(Revision(15)));
    });
}

#[test]
fn bytes_have_a_bound() {
    let bounds = Bounds { max_bytes: 1, ..Bounds::default() };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let embedded = Embedded::open_bounded(&path, Revision(10), bounds).unwrap();
    let memory = Memory::bounded(Revision(10), bounds);
    let [a, b] = ["a", "b"].map(Key::volume);
    memory.commit(write(&a, None, Some("a"))).unwrap();
    let replica = Replica::alone(Revision(10), bounds);
    let mut ledgers = vec![(&memory as &dyn Ledger, true), (&embedded, false)];
    if let Some(replica) = &replica {
        replica.ledger().commit(write(&a, None, Some("a"))).unwrap();
        ledgers.push((replica.ledger(), true));
    }
    for (ledger, change) in ledgers {
        assert!(ledger.n_bytes() >= 1);
        let full = Err(CommitError::TooLarge { limit: 1 });
        assert_eq!(ledger.commit(write(&b, None, Some("b"))), full);
        // What is there can be changed, and removed.
        if change {
            assert_eq!(ledger.commit(write(&a, Some(11), Some("aa"))), Ok(Revision(12)));
            assert_eq!(ledger.commit(write(&a, Some(12), None)), Ok(Revision(13)));
        }
    }
}

/// Threads increment one number: no update is lost, and every revision is given once.
#[test]
fn threads_lose_no_update() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&directory.path().join("ledger"), Revision(0)).unwrap();
    let memory = Memory::new(Revision(0));
    let replica = Replica::alone(Revision(0), Bounds::default());
    let mut ledgers: Vec<&dyn Ledger> = vec![&memory, &embedded];
    ledgers.extend(replica.as_ref().map(Replica::ledger));
    for ledger in ledgers {
        let key = Key::volume("counter");
        let add = || loop {
            let entry = ledger.read(slice::from_ref(&key)).unwrap().remove(0);
            let value = entry.as_ref().map_or(0, |entry| entry.value[0]);
            let transaction = Transaction {
                expectations: vec![(key.clone(), entry.map(|entry| entry.revision))],
                writes: vec![(key.clone(), Some(vec![value + 1]))],
                journal: Some(Vec::new()),
                term: None,
            };
            match ledger.commit(transaction) {
                Ok(revision) => break revision,
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let mut revisions: Vec<Revision> = std::thread::scope(|scope| {
            let threads =
                [(); 6].map(|()| scope.spawn(|| (0..30).map(|_| add()).collect::<Vec<_>>()));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        revisions.sort_unstable();
        assert_eq!(revisions, (1..=180).map(Revision).collect::<Vec<_>>());
        assert_eq!(ledger.read(slice::from_ref(&key)).unwrap()[0].as_ref().unwrap().value, [180]);
    }
}

#[test]
fn a_file_is_found_as_it_was_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let v = Key::volume("v");
    let ledger = Embedded::open(&path, Revision(10)).unwrap();
    ledger.commit(write(&v, None, Some("a"))).unwrap();
    drop(ledger);
    // Revisions go on from the given one, or from the last one if that is higher.
    let ledger = Embedded::open(&path, Revision(99)).unwrap();
    assert_eq!(ledger.read(slice::from_ref(&v)).unwrap(), [entry("a", 11)]);
    assert_eq!(ledger.commit(write(&v, Some(11), Some("b"))), Ok(Revision(100)));
    drop(ledger);
    let ledger = Embedded::open(&path, Revision(50)).unwrap();
    assert_eq!(ledger.commit(write(&v, Some(100), Some("c"))), Ok(Revision(101)));
}
