//! The queue between the engine and the thread that writes the journal: never waits, and is bounded.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use berth_engine::{Attempt, Change, Generation, Observer};

use super::told::Told;
use crate::clock;

/// Number of bytes that may wait to be written.
const MAX_WAITING_BYTES: usize = 128 << 20;
/// Number of bytes that an attempt or a change takes in the queue, about, besides objects.
const ITEM_BYTES: usize = 512;

/// Something to be written.
#[derive(Debug)]
pub(super) enum Item {
    Changed {
        generation: Generation,
        unix_micros: u64,
        changes: Vec<Change>,
    },
    Decided(Told),
    /// The journal ends.
    Close,
}

impl Item {
    /// Number of bytes that it takes, about.
    fn n_bytes(&self) -> usize {
        match self {
            // The objects are in the cluster, too.
            Item::Changed { changes, .. } => ITEM_BYTES * (1 + changes.len()),
            Item::Decided(told) => ITEM_BYTES + told.n_bytes(),
            Item::Close => 0,
        }
    }
}

/// Whom the engine tells.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Items with the number of bytes that they take.
    queue: Sender<(Item, usize)>,
    receiver: Mutex<Option<Receiver<(Item, usize)>>>,
    n_waiting_bytes: AtomicUsize,
    /// Whether what is told is taken. Cleared when the queue is full, or nothing can be written.
    takes: AtomicBool,
}

impl Recorder {
    /// A recorder that takes nothing yet.
    pub(crate) fn new() -> Recorder {
        let (queue, receiver) = mpsc::channel();
        let (n_waiting_bytes, takes) = (AtomicUsize::new(0), AtomicBool::new(false));
        Recorder { queue, receiver: Mutex::new(Some(receiver)), n_waiting_bytes, takes }
    }

    /// The other end, for the one thread that writes.
    pub(super) fn receiver(&self) -> Option<Receiver<(Item, usize)>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on takes what is told, or nothing of it.
    pub(super) fn set_takes(&self, takes: bool) {
        self.takes.store(takes, Ordering::SeqCst);
    }

    pub(super) fn takes(&self) -> bool {
        self.takes.load(Ordering::SeqCst)
    }

    /// An item of this size has left the queue.
    pub(super) fn note_taken(&self, n_bytes: usize) {
        self.n_waiting_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
    }

    /// Number of bytes that wait to be written.
    pub(crate) fn n_waiting_bytes(&self) -> usize {
        self.n_waiting_bytes.load(Ordering::Relaxed)
    }

    /// Ends the journal once everything that was told is written.
    pub(crate) fn close(&self) {
        // An error means that it has ended already.
        drop(self.queue.send((Item::Close, 0)));
    }

    fn send(&self, item: Item) {
        let n_bytes = item.n_bytes();
        // What was taken is written to the last: only what comes after it is lost.
        if self.n_waiting_bytes.fetch_add(n_bytes, Ordering::Relaxed) > MAX_WAITING_BYTES {
            self.set_takes(false);
        }
        // An error means that the journal has ended.
        drop(self.queue.send((item, n_bytes)));
    }
}

impl Observer for Recorder {
    fn changed(&self, generation: Generation, changes: Vec<Change>) {
        if self.takes() {
            self.send(Item::Changed { generation, unix_micros: clock::unix_micros(), changes });
        }
    }

    fn decided(&self, generation: Generation, attempt: &Attempt<'_>) {
        if self.takes() {
            self.send(Item::Decided(Told::of(generation, attempt)));
        }
    }
}
