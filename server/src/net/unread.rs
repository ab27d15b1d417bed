//! Unread responses of one connection. A response is written as fast as the client reads it; a client that reads
//! nothing would keep the rest of it, and its slot among the calls under way, for as long as it likes. Each response
//! therefore has a slot here with the time since when it waits; [`SlowReaders`](super::slow_readers::SlowReaders)
//! closes connections that wait too long.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Slots of a connection. Responses beyond this number are not timed; there are few, since most responses are read at
/// once.
pub(super) const N_SLOTS: usize = 256;
/// Number of slots that are tried for a new response.
const N_TRIES: usize = 8;
/// Value of a slot without a response.
const FREE: u32 = 0;
/// Value of a slot whose response does not wait. Larger values are ticks.
pub(super) const TAKEN: u32 = 1;

/// The slots of one connection.
#[derive(Debug)]
pub(crate) struct Unread {
    /// Slots, each [`FREE`], [`TAKEN`], or the tick since when its response waits.
    slots: Box<[AtomicU32]>,
    next: AtomicUsize,
    /// Whether the connection is watched already.
    is_listed: AtomicBool,
    is_cut: AtomicBool,
    /// Waker of the connection's task.
    waker: Mutex<Option<Waker>>,
}

impl Default for Unread {
    fn default() -> Unread {
        Unread {
            slots: (0..N_SLOTS).map(|_| AtomicU32::new(FREE)).collect(),
            next: AtomicUsize::new(0),
            is_listed: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            waker: Mutex::default(),
        }
    }
}

impl Unread {
    /// Ready once the connection is to be closed. Called while there is nothing to read.
    pub(crate) fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_cut.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        // `cut` sets the flag before it takes the waker: either it finds this waker, or the flag is seen here.
        if self.is_cut.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Requests that the connection's task close it.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Marks the connection as watched; returns whether it was not before.
    pub(super) fn list(&self) -> bool {
        // Load first: the flag is written once in a connection's life.
        !self.is_listed.load(Ordering::Relaxed) && !self.is_listed.swap(true, Ordering::Relaxed)
    }

    pub(super) fn take_slot(&self) -> Option<usize> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (first..first.wrapping_add(N_TRIES)).map(|slot| slot % N_SLOTS).find(|&slot| {
            let slot = &self.slots[slot];
            slot.compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    pub(super) fn set(&self, slot: usize, since: u32) {
        self.slots[slot].store(since, Ordering::Relaxed);
    }

    pub(super) fn free(&self, slot: usize) {
        self.slots[slot].store(FREE, Ordering::Relaxed);
    }

    /// The tick since when the longest-waiting response waits.
    pub(super) fn oldest(&self) -> Option<u32> {
        let since = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        since.filter(|&since| since > TAKEN).min()
    }
}
