//! Keeper: writes assumptions to a ledger, in the order in which they were made, on a thread of its own. Changes that come
//! while others are being written share the next transaction.
//!
//! A pod gives its room back only once the ledger has its end: so what is restored never takes more room than was taken
//! before. A change that could not be written is tried again until it can be; its caller does not wait for that.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use berth_engine::{AssumptionStamp, PodKey};
use tokio::sync::oneshot;

use super::book::Book;
use super::record::NewRecord;
use super::written::{Outcome, Written};
use crate::ledger::{CommitError, GrantError, Key, Ledger};
use crate::service::response_cache::InProgress;
use crate::telemetry::AssumptionEnd;

/// Number of keys, and of bytes, from which a transaction takes no further change: within etcd's limits.
const MAX_KEYS: usize = 100;
const MAX_BYTES: usize = 512 << 10;
/// Time until a failed transaction is tried again, if no change comes before.
const RETRY: Duration = Duration::from_secs(1);

/// The end of a pod's assumption.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) token: u64,
    /// The pod that leaves the cluster; `None` where it is not assumed any more.
    pub(super) assumed: Option<(PodKey, AssumptionStamp)>,
}

/// A change of assumptions.
enum Change {
    Add {
        records: Vec<NewRecord>,
        ttl: Option<Duration>,
        outcome: oneshot::Sender<Outcome>,
    },
    Nominate {
        nominations: Vec<(Key, Option<Vec<u8>>)>,
        outcome: oneshot::Sender<Outcome>,
    },
    SetTtl {
        token: u64,
        ttl: Option<Duration>,
        outcome: oneshot::Sender<Outcome>,
    },
    End {
        pods: Vec<Ending>,
        reason: AssumptionEnd,
        outcome: oneshot::Sender<Outcome>,
        /// A request whose retry waits for the end.
        request: Option<Arc<InProgress>>,
    },
}

/// The way to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Not bounded, so that nobody waits for a place in a connection's task: what waits is of calls and streams that wait
    /// for it, and those are bounded.
    changes: Sender<Change>,
}

impl Keeper {
    /// Starts the thread. `book` has what the ledger has; `take_out` takes pods out of the cluster whose end is written.
    ///
    /// # Errors
    /// The system's, if it has no thread.
    pub(super) fn start(
        ledger: Arc<dyn Ledger>,
        book: Book,
        take_out: impl Fn(&[Ending], AssumptionEnd) + Send + 'static,
    ) -> std::io::Result<Keeper> {
        let (changes, received) = channel();
        let (take_out, waiting, ending) = (Box::new(take_out), Vec::new(), Vec::new());
        let work = Work { ledger, book, take_out, waiting, ending };
        thread::Builder::new()
            .name("berth-keeper".to_owned())
            .spawn(move || work.run(&received))?;
        Ok(Keeper { changes })
    }

    /// Writes new records.
    pub(super) fn add(&self, records: Vec<NewRecord>, ttl: Option<Duration>) -> Written {
        self.send(|outcome| Change::Add { records, ttl, outcome })
    }

    /// Writes nominations; `None` for a pod that has none.
    pub(super) fn nominate(&self, nominations: Vec<(Key, Option<Vec<u8>>)>) -> Written {
        self.send(|outcome| Change::Nominate { nominations, outcome })
    }

    /// Writes another time to live.
    pub(super) fn set_ttl(&self, token: u64, ttl: Option<Duration>) -> Written {
        self.send(|outcome| Change::SetTtl { token, ttl, outcome })
    }

    /// Writes the end of pods, and then takes them out of the cluster; sooner or later also where the outcome is an error.
    pub(super) fn end(
        &self,
        pods: Vec<Ending>,
        reason: AssumptionEnd,
        request: Option<Arc<InProgress>>,
    ) -> Written {
        self.send(|outcome| Change::End { pods, reason, outcome, request })
    }

    fn send(&self, change: impl FnOnce(oneshot::Sender<Outcome>) -> Change) -> Written {
        let (outcome, written) = Written::pending();
        // Without the thread the sender is dropped, and whoever waits hears it.
        drop(self.changes.send(change(outcome)));
        written
    }
}

/// Pods whose end is not in the ledger yet.
struct Leaving {
    pods: Vec<Ending>,
    reason: AssumptionEnd,
    _request: Option<Arc<InProgress>>,
}

/// Takes pods out of the cluster.
type TakeOut = dyn Fn(&[Ending], AssumptionEnd) + Send;

struct Work {
    ledger: Arc<dyn Ledger>,
    book: Book,
    take_out: Box<TakeOut>,
    /// Who waits for the next transaction; with the keys that it would add.
    waiting: Vec<(oneshot::Sender<Outcome>, Vec<Key>)>,
    ending: Vec<Leaving>,
}

impl Work {
    fn run(mut self, changes: &Receiver<Change>) {
        loop {
            let first = match self.is_done() {
                true => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => changes.recv_timeout(RETRY),
            };
            match first {
                Ok(first) => {
                    self.take(first);
                    self.take_more(changes);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.write();
        }
    }

    fn is_done(&self) -> bool {
        !self.book.is_unsure() && self.ending.is_empty()
    }

    fn take_more(&mut self, changes: &Receiver<Change>) {
        loop {
            let (n_keys, n_bytes) = self.book.n_unsure();
            if n_keys >= MAX_KEYS || n_bytes >= MAX_BYTES {
                return;
            }
            match changes.try_recv() {
                Ok(change) => self.take(change),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Add { records, ttl, outcome } => {
                let added = self.book.add(records, ttl);
                self.waiting.push((outcome, added));
            }
            Change::Nominate { nominations, outcome } => {
                let added = self.book.set_nominations(nominations);
                self.waiting.push((outcome, added));
            }
            Change::SetTtl { token, ttl, outcome } => {
                self.book.set_ttl(token, ttl);
                self.waiting.push((outcome, Vec::new()));
            }
            Change::End { pods, reason, outcome, request } => {
                pods.iter().for_each(|pod| self.book.end(pod.token));
                self.waiting.push((outcome, Vec::new()));
                self.ending.push(Leaving { pods, reason, _request: request });
            }
        }
    }

    /// Tries to write everything that has changed.
    fn write(&mut self) {
        let refused = match self.commit() {
            Ok(()) => return self.finish(&Ok(())),
            Err(CommitError::Full { limit }) => GrantError::Full { limit },
            Err(CommitError::TooLarge { limit }) => GrantError::TooLarge { limit },
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
        for (outcome, added) in adding {
            self.book.withdraw(&added);
            // A caller that is gone needs no answer.
            drop(outcome.send(Err(refused.clone())));
        }
        match self.commit() {
            Ok(()) => self.finish(&Ok(())),
            Err(error) => {
                tracing::error!(%error, "the ends of assumptions could not be written");
                self.answer(&Err(refused));
            }
        }
    }

    fn commit(&mut self) -> Result<(), CommitError> {
        if self.book.is_unsure() {
            self.ledger.commit(self.book.transaction())?;
            self.book.settle();
        }
        Ok(())
    }

    /// Takes the pods out of the cluster whose end is written, and answers.
    fn finish(&mut self, outcome: &Outcome) {
        for Leaving { pods, reason, .. } in mem::take(&mut self.ending) {
            (self.take_out)(&pods, reason);
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
