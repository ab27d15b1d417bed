//! The records as a committer knows them, and the transactions that it makes of callers' changes. Plain data: no I/O and
//! no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_etcd::rpc::{RequestOp, TxnRequest};
use berth_etcd::{range, transaction};
use prost::Message;

use super::layout::{Head, Layout, Stored};
use crate::ledger::{Bounds, CommitError, Key, Revision, Term, Transaction};

/// Maximum number of operations of a transaction: etcd's `--max-txn-ops`, unless it was changed.
const MAX_OPERATIONS: usize = 128;
/// Maximum number of bytes that a transaction writes, below etcd's `--max-request-bytes` of 1.5 MiB.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Operations of each transaction besides its records and lines: the head, and the removal of old lines.
const N_OWN_OPERATIONS: usize = 2;

/// Names an answer that a caller waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

/// A change that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) transaction: Transaction,
}

/// The records as they are after the last commit that is known to have happened.
#[derive(Clone, Debug)]
pub(super) struct Book {
    layout: Layout,
    bounds: Bounds,
    term: i64,
    head: Head,
    /// Revision in etcd at which the head was written; 0 if there is none yet.
    head_written: i64,
    records: BTreeMap<Key, Known>,
    /// Revisions of the lines of the journal.
    lines: VecDeque<Revision>,
    n_bytes: u64,
}

/// A record, without its value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) revision: Revision,
    pub(super) n_bytes: u64,
}

/// The ledger in etcd at one revision, without values: what a new committer begins with.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) head: Option<(Head, i64)>,
    pub(super) records: BTreeMap<Key, Known>,
    /// In ascending order.
    pub(super) lines: VecDeque<Revision>,
}

/// Changes that are written by one transaction.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) request: TxnRequest,
    /// The revision of each change.
    pub(super) commits: Vec<(Ticket, Revision)>,
    /// Revisions of the new lines of the journal.
    lines: Vec<Revision>,
    /// Changes whose expectations do not hold: known for certain once the transaction finds term and head unchanged.
    pub(super) refusals: Vec<(Ticket, CommitError)>,
    head: Head,
    records: BTreeMap<Key, Option<Known>>,
    /// Number of old lines that are removed.
    n_lines_removed: usize,
}

/// Outcome of a transaction that compared the term and the head.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The term is over.
    OtherTerm,
    /// The head is the one that the batch in doubt would have written, at this revision in etcd.
    BatchHappened(i64),
    /// The head is the one that a barrier in doubt would have written, at this revision in etcd.
    BarrierHappened(i64),
    /// Somebody else has written the head.
    OtherHead,
}

impl Book {
    /// The book of the committer of `term`. Revisions go on after `start` and after the last commit.
    pub(super) fn new(
        layout: Layout,
        bounds: Bounds,
        (term, start): (i64, Revision),
        listing: Listing,
    ) -> Book {
        let Listing { head, records, lines } = listing;
        let (head, head_written) = head.unwrap_or_default();
        let line = if head_written == 0 { start.0 } else { head.line };
        let head = Head { last: head.last.max(start.0), term, n_barriers: 0, line };
        let n_bytes = records.values().map(|known| known.n_bytes).sum();
        Book { layout, bounds, term, head, head_written, records, lines, n_bytes }
    }

    /// The term of the committer.
    pub(super) fn term(&self) -> Term {
        Term(self.term)
    }

    /// The last commit.
    pub(super) fn last(&self) -> Revision {
        Revision(self.head.last)
    }

    /// Number of bytes of the records.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Makes a transaction of changes at the front of `waiting` and takes them out. `None` if nothing waits.
    ///
    /// A record is written once in a transaction. A change of a record that the batch writes already waits for the
    /// next one, and so does what is behind it.
    pub(super) fn batch(&self, waiting: &mut VecDeque<Waiting>) -> Option<Batch> {
        let mut forming = Forming::new(self);
        while let Some(next) = waiting.front() {
            if forming.touches(&next.transaction) {
                break;
            }
            let refusal = forming.refusal(&next.transaction);
            if refusal.is_none() && !forming.has_room(&next.transaction) {
                break;
            }
            let Some(Waiting { ticket, transaction }) = waiting.pop_front() else { break };
            match refusal {
                Some(refusal) => forming.refusals.push((ticket, refusal)),
                None => forming.add(ticket, transaction),
            }
        }
        let is_empty = forming.commits.is_empty() && forming.refusals.is_empty();
        (!is_empty).then(|| forming.finish())
    }

    /// Writes the head anew without a commit: if it happens, a batch that is in doubt never will.
    pub(super) fn barrier(&self) -> TxnRequest {
        let head = self.head_of_barrier().encode_to_vec();
        self.request(vec![transaction::put(self.layout.head(), head, 0)])
    }

    fn head_of_barrier(&self) -> Head {
        Head { n_barriers: self.head.n_barriers + 1, ..self.head.clone() }
    }

    /// Takes note that a batch was written at a revision of etcd.
    pub(super) fn apply(&mut self, batch: Batch, written: i64) {
        if batch.commits.is_empty() {
            return;
        }
        for (key, known) in batch.records {
            let old = match known {
                Some(known) => {
                    self.n_bytes += known.n_bytes;
                    self.records.insert(key, known)
                }
                None => self.records.remove(&key),
            };
            self.n_bytes -= old.map_or(0, |old| old.n_bytes);
        }
        self.lines.extend(batch.lines);
        self.lines.drain(..batch.n_lines_removed);
        self.head = batch.head;
        self.head_written = written;
    }

    /// Takes note that the barrier was written at a revision of etcd.
    pub(super) fn apply_barrier(&mut self, written: i64) {
        self.head = self.head_of_barrier();
        self.head_written = written;
    }

    /// Tells why a transaction of this book was refused, from the committer and the head that etcd has instead.
    pub(super) fn compare(
        &self,
        committer_created: Option<i64>,
        head: Option<(Head, i64)>,
        doubtful: Option<&Batch>,
    ) -> Comparison {
        if committer_created != Some(self.term) {
            return Comparison::OtherTerm;
        }
        match head {
            Some((head, written)) if doubtful.is_some_and(|batch| batch.head == head) => {
                Comparison::BatchHappened(written)
            }
            Some((head, written)) if head == self.head_of_barrier() => {
                Comparison::BarrierHappened(written)
            }
            _ => Comparison::OtherHead,
        }
    }

    /// A transaction that writes only if the term and the head are what this book knows, and reads both if not.
    fn request(&self, success: Vec<RequestOp>) -> TxnRequest {
        let (committer, head) = (self.layout.committer(), self.layout.head());
        TxnRequest {
            compare: vec![
                transaction::created_at(committer.clone(), self.term),
                transaction::changed_at(head.clone(), self.head_written),
            ],
            success,
            failure: [committer, head].map(|key| transaction::read(range::key(key))).to_vec(),
        }
    }
}

/// A batch that is being made.
struct Forming<'a> {
    book: &'a Book,
    /// Revision of the line before the next one.
    previous: Revision,
    last: Revision,
    operations: Vec<RequestOp>,
    commits: Vec<(Ticket, Revision)>,
    lines: Vec<Revision>,
    refusals: Vec<(Ticket, CommitError)>,
    records: BTreeMap<Key, Option<Known>>,
    expected: BTreeSet<Key>,
    n_added: u64,
    n_batch_bytes: usize,
}

impl<'a> Forming<'a> {
    fn new(book: &'a Book) -> Forming<'a> {
        let last = Revision(book.head.last);
        Forming {
            book,
            previous: Revision(book.head.line),
            last,
            operations: Vec::new(),
            commits: Vec::new(),
            lines: Vec::new(),
            refusals: Vec::new(),
            records: BTreeMap::new(),
            expected: BTreeSet::new(),
            n_added: 0,
            n_batch_bytes: 0,
        }
    }

    /// Whether a change depends on what the batch writes.
    fn touches(&self, transaction: &Transaction) -> bool {
        let compared = transaction.expectations.iter().map(|(key, _)| key);
        let mut keys = compared.chain(transaction.writes.iter().map(|(key, _)| key));
        keys.any(|key| self.records.contains_key(key))
            || transaction.writes.iter().any(|(key, _)| self.expected.contains(key))
    }

    fn refusal(&self, transaction: &Transaction) -> Option<CommitError> {
        let records = &self.book.records;
        for (key, expected) in &transaction.expectations {
            if records.get(key).map(|known| known.revision) != *expected {
                return Some(CommitError::Conflict { key: key.clone() });
            }
        }
        let n_added = self.n_added_by(transaction);
        if n_added == 0 {
            return None;
        }
        let Bounds { max_bytes, max_records, .. } = self.book.bounds;
        if self.book.n_bytes >= max_bytes {
            return Some(CommitError::TooLarge { limit: max_bytes });
        }
        let is_full = records.len() as u64 + self.n_added + n_added > max_records;
        is_full.then_some(CommitError::Full { limit: max_records })
    }

    fn n_added_by(&self, transaction: &Transaction) -> u64 {
        let is_added = |(key, value): &&(Key, Option<Vec<u8>>)| {
            value.is_some() && !self.book.records.contains_key(key)
        };
        transaction.writes.iter().filter(is_added).count() as u64
    }

    fn has_room(&self, transaction: &Transaction) -> bool {
        let n_operations = self.operations.len() + transaction.writes.len() + 1;
        let n_bytes = self.n_batch_bytes + bytes(transaction);
        // The first one is tried whatever it takes: etcd has the last word.
        let is_first = self.commits.is_empty();
        is_first || n_operations + N_OWN_OPERATIONS <= MAX_OPERATIONS && n_bytes <= MAX_BATCH_BYTES
    }

    fn add(&mut self, ticket: Ticket, transaction: Transaction) {
        let layout = &self.book.layout;
        self.n_added += self.n_added_by(&transaction);
        self.n_batch_bytes += bytes(&transaction);
        let (previous, revision) = (self.previous, self.last.next());
        let stored = |previous: Revision, value: Vec<u8>| {
            Stored { revision: revision.0, previous: previous.0, value }.encode_to_vec()
        };
        self.expected.extend(transaction.expectations.into_iter().map(|(key, _)| key));
        for (key, value) in transaction.writes {
            let name = layout.record(key.as_str());
            let known = match value {
                Some(value) => {
                    let value = stored(Revision(0), value);
                    let n_bytes = (name.len() + value.len()) as u64;
                    self.operations.push(transaction::put(name, value, 0));
                    Some(Known { revision, n_bytes })
                }
                None => {
                    self.operations.push(transaction::delete(name));
                    None
                }
            };
            self.records.insert(key, known);
        }
        if let Some(line) = transaction.journal {
            let line = stored(previous, line);
            self.operations.push(transaction::put(layout.line(revision), line, 0));
            self.lines.push(revision);
            self.previous = revision;
        }
        self.commits.push((ticket, revision));
        self.last = revision;
    }

    fn finish(self) -> Batch {
        let Forming {
            book, previous, last, mut operations, commits, lines, refusals, records, ..
        } = self;
        let layout = &book.layout;
        if commits.is_empty() {
            // Nothing to write: only the comparisons.
            let (request, head) = (book.request(Vec::new()), book.head.clone());
            return Batch { request, commits, lines, refusals, head, records, n_lines_removed: 0 };
        }
        let max_lines = usize::try_from(book.bounds.max_journal_lines).unwrap_or(usize::MAX);
        let n_lines_removed = (book.lines.len() + lines.len()).saturating_sub(max_lines);
        if n_lines_removed > 0 {
            let kept = book.lines.iter().chain(&lines).nth(n_lines_removed).copied();
            let end = layout.line(kept.unwrap_or(last.next()));
            // etcd refuses a transaction that removes what it puts.
            let end = lines.first().map_or(end.clone(), |first| end.min(layout.line(*first)));
            operations.push(transaction::delete_range(layout.journal(), end));
        }
        let n_lines_removed = n_lines_removed.min(book.lines.len());
        let head = Head { last: last.0, line: previous.0, ..book.head.clone() };
        operations.push(transaction::put(layout.head(), head.encode_to_vec(), 0));
        let request = book.request(operations);
        Batch { request, commits, lines, refusals, head, records, n_lines_removed }
    }
}

/// Number of bytes that a change writes, without the names of keys, which are short.
fn bytes(transaction: &Transaction) -> usize {
    let values = transaction.writes.iter().filter_map(|(_, value)| value.as_ref());
    values.map(Vec::len).sum::<usize>() + transaction.journal.as_ref().map_or(0, Vec::len)
}
