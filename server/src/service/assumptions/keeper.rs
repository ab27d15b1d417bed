//! Keeper: writes assumptions to a ledger, in the order in which they were made, on a thread of its own. Changes that come
//! while others are being written share the next transaction.
//!
//! A pod gives its room back only once the ledger has its end: so what is restored never takes more room than was taken
//! before. A change that could not be written is tried again until it can be; its caller does not wait for that.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use berth_engine::{AssumptionStamp, PodKey};
use tokio::sync::oneshot;

use super::book::{Book, MAX_BYTES, MAX_KEYS};
use super::record::NewRecord;
use super::request;
use super::written::{Outcome, Written};
use crate::clock;
use crate::ledger::{CommitError, GrantError, Key, Ledger, LedgerError, Term};
use crate::service::response_cache::InProgress;
use crate::telemetry::AssumptionEnd;

/// Maximum number of bytes of a record's value, below etcd's `--max-request-bytes` of 1.5 MiB.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// Maximum number of nominations that are written together.
const MAX_TOGETHER: usize = MAX_KEYS / 2;
/// Time until a failed transaction is tried again, if no change comes before.
const RETRY: Duration = Duration::from_millis(500);

/// The end of a pod's assumption.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) token: u64,
    /// The pod that leaves the cluster; `None` where it is not assumed any more.
    pub(super) assumed: Option<(PodKey, AssumptionStamp)>,
}

/// What a keeper writes to, and on whose behalf.
pub(super) struct Place {
    pub(super) ledger: Arc<dyn Ledger>,
    /// The term in which this replica commits, where others may.
    pub(super) term: Option<Term>,
    /// Takes note that the records of pods are written.
    pub(super) note_written: Box<NoteWritten>,
    /// Takes pods out of the cluster whose end is written.
    pub(super) take_out: Box<TakeOut>,
    /// Value of the record of the position, which every transaction carries if it has changed; `None` where there is none.
    pub(super) position: Box<dyn Fn() -> Option<Vec<u8>> + Send>,
}

/// Takes note that the records of pods, each with its token, are written.
pub(super) type NoteWritten = dyn Fn(&[(PodKey, u64)]) + Send;

/// Takes pods out of the cluster.
pub(super) type TakeOut = dyn Fn(&[Ending], AssumptionEnd) + Send;

/// A change of assumptions, and who waits for it.
struct Change {
    what: What,
    outcome: oneshot::Sender<Outcome>,
}

enum What {
    Add {
        records: Vec<NewRecord>,
        /// The pods of the records, with their tokens.
        pods: Vec<(PodKey, u64)>,
        ttl: Option<Duration>,
        /// The record of the request that adds them, if it has a name.
        request: Option<(Key, Vec<u8>)>,
    },
    /// The records of a response.
    Answer(Vec<(Key, Vec<u8>)>),
    Nominate(Vec<(Key, Option<Vec<u8>>)>),
    SetTtl {
        token: u64,
        ttl: Option<Duration>,
    },
    End(Leaving),
    /// Nothing; but that this server still decides has to be certain.
    Settle,
}

/// Pods whose end is not in the ledger yet.
struct Leaving {
    pods: Vec<Ending>,
    reason: AssumptionEnd,
    /// The request that is undone with it.
    undone: Option<Undone>,
}

impl Leaving {
    fn tokens(&self) -> impl Iterator<Item = u64> {
        self.pods.iter().map(|pod| pod.token)
    }

    fn n_requests(&self) -> usize {
        usize::from(self.undone.is_some())
    }

    /// Leaves the first `n` pods; returns the others, with the request.
    fn split_off(&mut self, n: usize) -> Option<Leaving> {
        let is_split = n < self.pods.len();
        is_split.then(|| Leaving {
            pods: self.pods.split_off(n),
            reason: self.reason,
            undone: self.undone.take(),
        })
    }
}

/// A named request that is undone.
#[derive(Clone, Debug)]
pub(super) struct Undone {
    /// Key of its record, if it has one.
    pub(super) key: Key,
    /// Until it is dropped, a retry waits.
    pub(super) _retry: Option<Arc<InProgress>>,
}

impl Undone {
    pub(super) fn of(request: &Arc<InProgress>) -> Undone {
        Undone { key: request::key(request.name()), _retry: Some(request.clone()) }
    }
}

/// The way to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Not bounded, so that nobody waits for a place in a connection's task: what waits is of calls and streams that wait
    /// for it, and those are bounded.
    changes: Sender<Change>,
}

impl Keeper {
    /// Starts the thread. `book` has what the ledger has.
    ///
    /// # Errors
    /// The system's, if it has no thread.
    pub(super) fn start(place: Place, book: Book) -> std::io::Result<Keeper> {
        let (changes, received) = channel();
        let work = Work {
            place,
            book,
            position: None,
            has_failed: false,
            is_over: false,
            asks_term: false,
            waiting: Vec::new(),
            adding: Vec::new(),
            ending: Vec::new(),
            later: VecDeque::new(),
            next: None,
        };
        thread::Builder::new()
            .name("reservations".to_owned())
            .spawn(move || work.run(&received))
            .map(|_| Keeper { changes })
    }

    /// Writes new records, which are of these pods with their tokens, for the named request of its caller if it is one.
    pub(super) fn add(
        &self,
        records: Vec<NewRecord>,
        pods: Vec<(PodKey, u64)>,
        ttl: Option<Duration>,
        request: Option<&InProgress>,
    ) -> Written {
        let request = request.map(|request| request::unanswered(request, &records));
        self.send(What::Add { records, pods, ttl, request })
    }

    /// Writes the response to a named request.
    pub(super) fn answer(&self, request: &InProgress, response: &[u8]) -> Written {
        self.send(What::Answer(request::answered(request, response)))
    }

    /// Writes nominations; `None` for a pod that has none.
    pub(super) fn nominate(&self, nominations: Vec<(Key, Option<Vec<u8>>)>) -> Written {
        let (mut written, mut part, mut n_bytes) = (Written::default(), Vec::new(), 0);
        for nomination in nominations {
            let size = size(&nomination.1);
            if part.len() >= MAX_TOGETHER || !part.is_empty() && n_bytes + size > MAX_BYTES {
                written = written.and(self.send(What::Nominate(mem::take(&mut part))));
                n_bytes = 0;
            }
            n_bytes += size;
            part.push(nomination);
        }
        match part.is_empty() {
            true => written,
            false => written.and(self.send(What::Nominate(part))),
        }
    }

    /// Writes another time to live.
    pub(super) fn set_ttl(&self, token: u64, ttl: Option<Duration>) -> Written {
        self.send(What::SetTtl { token, ttl })
    }

    /// Writes the end of pods, and then takes them out of the cluster; sooner or later also where the outcome is an error.
    /// With the last of them goes the record of the request.
    pub(super) fn end(
        &self,
        pods: &[Ending],
        reason: AssumptionEnd,
        undone: Option<Undone>,
    ) -> Written {
        match pods.is_empty() && undone.is_none() {
            true => Written::default(),
            false => self.send(What::End(Leaving { pods: pods.to_vec(), reason, undone })),
        }
    }

    /// Waits for everything that was sent before, and until it is certain that no other server decides: whoever is told
    /// that something is not there could otherwise be told so by a server whose term is over.
    pub(super) fn settled(&self) -> Written {
        self.send(What::Settle)
    }

    fn send(&self, what: What) -> Written {
        let (outcome, written) = Written::pending();
        // Without the thread the sender is dropped, and whoever waits hears it.
        drop(self.changes.send(Change { what, outcome }));
        written
    }
}

struct Work {
    place: Place,
    book: Book,
    /// The position that the ledger has from this keeper.
    position: Option<Vec<u8>>,
    /// Whether the last transaction has failed: what it had may be there or not.
    has_failed: bool,
    /// Whether the term is over: nothing is written any more.
    is_over: bool,
    /// Whether somebody waits to hear that it is not.
    asks_term: bool,
    /// Who waits for what is in the book; with the keys that it would add.
    waiting: Vec<(oneshot::Sender<Outcome>, Vec<Key>)>,
    /// Pods whose records are in the book, and perhaps not in the ledger.
    adding: Vec<(PodKey, u64)>,
    /// Pods whose end is in the book.
    ending: Vec<Leaving>,
    /// Ends that came while nothing could be written.
    later: VecDeque<Leaving>,
    /// A change that did not fit into the last transaction.
    next: Option<Change>,
}

impl Work {
    fn run(mut self, changes: &Receiver<Change>) {
        loop {
            let next = match self.next.take() {
                Some(next) => Ok(next),
                None if self.is_done() => {
                    changes.recv().map_err(|_| RecvTimeoutError::Disconnected)
                }
                None => changes.recv_timeout(RETRY),
            };
            if self.has_failed {
                self.write();
            }
            self.take_up_later();
            match next {
                Ok(next) if self.has_failed || self.is_over => {
                    self.refuse(next);
                    // Nobody waits for more than one attempt.
                    while let Ok(next) = changes.try_recv() {
                        self.refuse(next);
                    }
                }
                Ok(next) => {
                    self.next = self.take(next);
                    if self.next.is_none() {
                        self.take_more(changes);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.has_failed && !self.is_over {
                self.write();
            }
        }
    }

    fn is_done(&self) -> bool {
        !self.has_failed && self.later.is_empty()
    }

    /// Answers who asks while nothing can be written. Only ends are kept for later.
    fn refuse(&mut self, change: Change) {
        let Change { what, outcome } = change;
        let error = match self.is_over {
            true => GrantError::OtherTerm,
            false => {
                let fault = self.place.ledger.fault();
                let reason = fault.unwrap_or_else(|| "the last change is in doubt".to_owned());
                LedgerError::Unavailable { reason }.into()
            }
        };
        // A caller that is gone needs no answer.
        drop(outcome.send(Err(error)));
        if let What::End(leaving) = what
            && !self.is_over
        {
            self.later.push_back(leaving);
        }
    }

    /// Takes up an end that came while nothing could be written.
    fn take_up_later(&mut self) {
        while !self.has_failed && !self.is_over {
            let Some(mut leaving) = self.later.pop_front() else { return };
            let rest = leaving.split_off(self.book.n_that_fit(leaving.tokens()));
            self.end(leaving);
            rest.into_iter().for_each(|rest| self.later.push_front(rest));
            self.write();
        }
    }

    fn take_more(&mut self, changes: &Receiver<Change>) {
        while self.next.is_none() {
            match changes.try_recv() {
                Ok(change) if self.has_room_for(&change.what) => {
                    self.next = self.take(change);
                }
                Ok(change) => return self.next = Some(change),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn has_room_for(&self, what: &What) -> bool {
        let (n_keys, n_bytes) = self.book.n_unsure();
        let (more_keys, more_bytes) = match what {
            What::Add { records, request, .. } => (
                2 * records.len() + usize::from(request.is_some()),
                records.iter().map(|record| record.body.len()).sum(),
            ),
            What::Answer(records) => {
                (records.len(), records.iter().map(|(_, value)| value.len()).sum())
            }
            What::Nominate(nominations) => {
                (nominations.len(), nominations.iter().map(|(_, value)| size(value)).sum())
            }
            What::SetTtl { .. } => (1, 0),
            What::Settle => (0, 0),
            What::End(leaving) => (self.book.n_keys_of(leaving.tokens()) + leaving.n_requests(), 0),
        };
        n_keys == 0 || n_keys + more_keys <= MAX_KEYS && n_bytes + more_bytes <= MAX_BYTES
    }

    /// Takes a change into the book; returns what of it does not fit into one transaction.
    fn take(&mut self, Change { what, outcome }: Change) -> Option<Change> {
        let added = match what {
            what if what.is_too_large() => {
                // A caller that is gone needs no answer.
                drop(outcome.send(Err(GrantError::RecordTooLarge { limit: MAX_RECORD_BYTES })));
                return None;
            }
            What::Add { records, mut pods, ttl, request } => {
                self.adding.append(&mut pods);
                let mut added = self.book.add(records, ttl);
                let records = request.into_iter().collect();
                added.extend(self.book.set_request(records, clock::now()));
                added
            }
            What::Answer(records) => self.book.set_request(records, clock::now()),
            What::Nominate(nominations) => self.book.set_nominations(nominations),
            What::SetTtl { token, ttl } => {
                self.book.set_ttl(token, ttl);
                Vec::new()
            }
            What::End(mut leaving) => {
                let rest = leaving.split_off(self.book.n_that_fit(leaving.tokens()));
                self.end(leaving);
                if let Some(rest) = rest {
                    return Some(Change { what: What::End(rest), outcome });
                }
                Vec::new()
            }
            What::Settle => {
                self.asks_term = self.place.term.is_some();
                Vec::new()
            }
        };
        self.waiting.push((outcome, added));
        None
    }

    fn end(&mut self, leaving: Leaving) {
        self.book.end(leaving.tokens());
        if let Some(undone) = &leaving.undone {
            self.book.end_request(&undone.key);
        }
        self.ending.push(leaving);
    }

    /// Tries to write everything that has changed.
    fn write(&mut self) {
        let refused = match self.commit() {
            Ok(()) => return self.finish(&Ok(())),
            Err(CommitError::Full { limit }) => GrantError::Full { limit },
            Err(CommitError::TooLarge { limit }) => GrantError::TooLarge { limit },
            Err(CommitError::OtherTerm) => return self.give_up(),
            Err(CommitError::Ledger(error)) => return self.answer(&Err(error.into())),
            // Nobody else writes these keys.
            Err(CommitError::Conflict { key }) => {
                return self.answer(&Err(GrantError::Contended { key }));
            }
        };
        // Nothing has changed in the ledger. Without the new records there is room for the rest.
        let (adding, others): (Vec<_>, Vec<_>) =
            mem::take(&mut self.waiting).into_iter().partition(|(_, added)| !added.is_empty());
        self.waiting = others;
        self.adding.clear();
        for (outcome, added) in adding {
            self.book.withdraw(&added);
            // A caller that is gone needs no answer.
            drop(outcome.send(Err(refused.clone())));
        }
        match self.commit() {
            Ok(()) => self.finish(&Ok(())),
            Err(CommitError::OtherTerm) => self.give_up(),
            Err(error) => {
                tracing::error!(%error, "the ends of assumptions could not be written");
                self.answer(&Err(refused));
            }
        }
    }

    fn commit(&mut self) -> Result<(), CommitError> {
        self.has_failed = true;
        while self.book.is_unsure() || self.asks_term {
            let mut transaction = self.book.transaction();
            transaction.term = self.place.term;
            let keys: Vec<Key> = transaction.writes.iter().map(|(key, _)| key.clone()).collect();
            let position = (self.place.position)().filter(|it| self.position.as_ref() != Some(it));
            if let Some(position) = &position {
                transaction.writes.push((Key::position(), Some(position.clone())));
            }
            self.place.ledger.commit(transaction)?;
            self.asks_term = false;
            self.book.settle(&keys);
            self.position = position.or(self.position.take());
        }
        self.has_failed = false;
        Ok(())
    }

    /// The term is over: nothing that is unsure will be written. Who commits now knows what was.
    fn give_up(&mut self) {
        (self.is_over, self.has_failed, self.asks_term) = (true, false, false);
        self.adding.clear();
        self.ending.clear();
        self.later.clear();
        self.answer(&Err(GrantError::OtherTerm));
    }

    /// Tells which pods have their records, takes those out of the cluster whose end is written, and answers.
    fn finish(&mut self, outcome: &Outcome) {
        (self.place.note_written)(&mem::take(&mut self.adding));
        for Leaving { pods, reason, .. } in mem::take(&mut self.ending) {
            (self.place.take_out)(&pods, reason);
        }
        self.answer(outcome);
    }

    fn answer(&mut self, outcome: &Outcome) {
        for (caller, _) in mem::take(&mut self.waiting) {
            // A caller that is gone needs no answer.
            drop(caller.send(outcome.clone()));
        }
    }
}

impl What {
    /// Whether the value of a record would be too large.
    fn is_too_large(&self) -> bool {
        let is_too_large = |n_bytes: usize| n_bytes > MAX_RECORD_BYTES;
        match self {
            What::Add { records, .. } => records.iter().any(|it| is_too_large(it.body.len())),
            What::Nominate(nominations) => nominations.iter().any(|it| is_too_large(size(&it.1))),
            // A response is split.
            What::Answer(_) | What::SetTtl { .. } | What::End(_) | What::Settle => false,
        }
    }
}

fn size(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, Vec::len)
}
