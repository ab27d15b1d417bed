//! The ledger on a real etcd: several replicas, members that fail, a full database.

use std::slice;

use berth_server::ledger::{
    Bounds, CommitError, Entry, Key, Ledger, LedgerError, Revision, Transaction, first_revision,
};
use berth_testing::etcd::Etcd;

use crate::ledger::replica::{Replica, await_true};

/// A change of a record from one revision to a new value.
fn write(key: &Key, expected: Option<Revision>, value: &str) -> Transaction {
    Transaction {
        expectations: vec![(key.clone(), expected)],
        writes: vec![(key.clone(), Some(value.as_bytes().to_vec()))],
        journal: Some(value.as_bytes().to_vec()),
        term: None,
    }
}

fn value_of(ledger: &dyn Ledger, key: &Key) -> Option<String> {
    Some(String::from_utf8(entry_of(ledger, key)?.value).unwrap())
}

/// Reads until it succeeds: while the members elect a leader, no read is answered.
fn entry_of(ledger: &dyn Ledger, key: &Key) -> Option<Entry> {
    let mut entries = None;
    await_true("a read succeeds", || {
        entries = ledger.read(slice::from_ref(key)).ok();
        entries.is_some()
    });
    entries.unwrap().remove(0)
}

fn replica(etcd: &Etcd, name: &str) -> Replica {
    Replica::on(etcd, name, first_revision(), Bounds::default())
}

/// Commits until it succeeds; returns the revision.
fn commit_at_last(ledger: &dyn Ledger, transaction: &Transaction) -> Revision {
    let mut revision = None;
    await_true("a commit succeeds", || {
        revision = ledger.commit(transaction.clone()).ok();
        revision.is_some()
    });
    revision.unwrap()
}

#[test]
fn one_of_two_replicas_commits_and_the_other_takes_over() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let [a, b] = ["a", "b"].map(|name| {
        let replica = replica(&etcd, name);
        if name == "a" {
            replica.await_committing();
        }
        replica
    });
    let key = Key::volume("v");
    let first = a.ledger().commit(write(&key, None, "a")).unwrap();
    await_true("the other replica knows who commits", || b.ledger().fault().is_none());
    let refused = b.ledger().commit(write(&key, Some(first), "b"));
    let Err(CommitError::Ledger(LedgerError::Unavailable { reason })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(reason, "`a` commits, not this replica");
    assert_eq!(value_of(b.ledger(), &key).as_deref(), Some("a"), "reads are answered everywhere");
    // A crash: b waits until the lease is over, and has everything that a has acknowledged.
    a.crash();
    let second = commit_at_last(b.ledger(), &write(&key, Some(first), "b"));
    assert!(second > first);
    // A resignation: the next one commits at once.
    let c = replica(&etcd, "c");
    await_true("the third replica knows who commits", || c.ledger().fault().is_none());
    b.ledger().resign();
    let refused = b.ledger().commit(write(&key, Some(second), "b again"));
    assert!(matches!(refused, Err(CommitError::Ledger(_))), "{refused:?}");
    let third = commit_at_last(c.ledger(), &write(&key, Some(second), "c"));
    assert!(third > second);
    let page = c.ledger().journal(Revision(0), 10).unwrap();
    let lines: Vec<_> = page.lines.iter().map(|line| (line.revision, line.previous)).collect();
    assert_eq!(lines.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [first, second, third]);
}

#[test]
fn the_loss_of_a_minority_of_members_loses_nothing() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let replica = replica(&etcd, "a");
    let ledger = replica.ledger();
    replica.await_committing();
    let key = Key::volume("v");
    let mut last = commit_at_last(ledger, &write(&key, None, "0"));
    for member in 0..3 {
        etcd.kill(member);
        let text = format!("{member}");
        // A change whose outcome was in doubt may have happened: then another try is a conflict.
        await_true("the change happens", || {
            match ledger.commit(write(&key, Some(last), &text)) {
                Ok(revision) => last = revision,
                Err(CommitError::Conflict { .. }) => {
                    let entry = entry_of(ledger, &key).unwrap();
                    assert_eq!(entry.value, text.as_bytes());
                    last = entry.revision;
                }
                Err(_) => return false,
            }
            true
        });
        assert_eq!(value_of(ledger, &key), Some(text));
        etcd.restart(member);
    }
}

#[test]
fn without_a_majority_nothing_is_committed_and_afterwards_all_goes_on() {
    let Some(etcd) = Etcd::start(3, &[]) else { return };
    let replica = replica(&etcd, "a");
    let ledger = replica.ledger();
    replica.await_committing();
    let key = Key::volume("v");
    let first = ledger.commit(write(&key, None, "before")).unwrap();
    (0..3).for_each(|member| etcd.pause(member, true));
    let refused = ledger.commit(write(&key, Some(first), "in doubt"));
    assert!(matches!(refused, Err(CommitError::Ledger(_))), "{refused:?}");
    assert!(ledger.fault().is_some());
    ledger.commit(write(&key, Some(first), "refused")).unwrap_err();
    (0..3).for_each(|member| etcd.pause(member, false));
    await_true("the fault passes", || {
        replica.etcd().role().borrow().is_committer() && ledger.fault().is_none()
    });
    // The change in doubt has happened or never will.
    let is_written = value_of(ledger, &key).as_deref() == Some("in doubt");
    // A slow machine may lose the lease once more: what was in doubt then, and happened, is a conflict as well.
    let mut again = None;
    await_true("the ledger answers", || {
        let answer = ledger.commit(write(&key, Some(first), "after"));
        let is_answer = !matches!(answer, Err(CommitError::Ledger(_)));
        again = Some(answer);
        is_answer
    });
    match again.unwrap() {
        Ok(revision) => assert!(!is_written && revision > first),
        Err(error) => assert_eq!(error, CommitError::Conflict { key: key.clone() }),
    }
    let expected = if is_written { "in doubt" } else { "after" };
    assert_eq!(value_of(ledger, &key).as_deref(), Some(expected));
}

#[test]
fn a_full_database_is_a_fault_that_passes() {
    // The least quota that etcd can start with has room for some dozens of these records.
    let quota = |bytes| ["--quota-backend-bytes", bytes];
    let Some(mut etcd) = Etcd::start(1, &quota("2097152")) else { return };
    let replica = replica(&etcd, "a");
    let ledger = replica.ledger();
    replica.await_committing();
    let large = "x".repeat(100_000);
    let mut acknowledged = Vec::new();
    let mut n = 0;
    let error = loop {
        let key = Key::volume(&format!("v{n}"));
        match ledger.commit(write(&key, None, &large)) {
            Ok(revision) => acknowledged.push((key, revision)),
            Err(error) => break error,
        }
        n += 1;
        assert!(n < 1_000, "the quota is reached");
    };
    assert!(error.to_string().contains("no space left"), "{error}");
    await_true("the fault is shown", || {
        ledger.fault().is_some_and(|fault| fault.contains("no space left"))
    });
    for (key, revision) in &acknowledged {
        let entry = ledger.read(slice::from_ref(key)).unwrap().remove(0).unwrap();
        assert_eq!(entry.revision, *revision, "what was acknowledged stays");
    }
    // With room, and the alarm off, it goes on by itself; the change in doubt has happened or never will.
    etcd.kill(0);
    etcd.set_flags(&quota("67108864"));
    etcd.restart(0);
    if !etcd.control(&["alarm", "disarm"]) {
        return;
    }
    await_true("the fault passes", || {
        replica.etcd().role().borrow().is_committer() && ledger.fault().is_none()
    });
    let in_doubt = Key::volume(&format!("v{n}"));
    let has_happened = value_of(ledger, &in_doubt).is_some();
    let again = ledger.commit(write(&in_doubt, None, "again"));
    assert_eq!(again.is_err(), has_happened, "{again:?}");
    let page = ledger.journal(Revision(0), 10_000).unwrap();
    assert_eq!(page.lines.len(), acknowledged.len() + 1);
}
