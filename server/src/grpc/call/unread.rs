//! Unread: the answers of one connection that wait for their reader. An answer is written as fast as the client takes it, and a
//! client that takes nothing keeps what is left of it, and its place among the calls under way, for as long as it likes. So
//! each answer has a slot here that says since when it waits; whoever looks after them closes the connection of one that waits
//! too long.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::runtime::Peer;

/// Slots of a connection. More answers than this that wait at a time are not looked after; they are never many, for most answers
/// are taken at once.
const N_SLOTS: usize = 256;
/// Slots that are tried for a new answer.
const N_TRIES: usize = 8;
/// Of a slot: nobody's.
const FREE: u32 = 0;
/// Of a slot: an answer that does not wait.
const TAKEN: u32 = 1;

/// The slots of one connection.
#[derive(Debug)]
pub(crate) struct Unread {
    /// [`FREE`], [`TAKEN`], or since when, in ticks of [`Watch`].
    slots: Box<[AtomicU32]>,
    next: AtomicUsize,
    /// Whether the connection is looked after already.
    is_listed: AtomicBool,
    is_cut: AtomicBool,
    /// Of the connection's task.
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
    /// Ready when the connection is to be closed. To be asked when there is nothing to be read.
    pub(crate) fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_cut.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        // Whoever cuts takes the waker afterwards: it finds this one, or is seen here.
        if self.is_cut.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn take_slot(&self) -> Option<usize> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (first..first.wrapping_add(N_TRIES)).map(|slot| slot % N_SLOTS).find(|&slot| {
            let slot = &self.slots[slot];
            slot.compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    /// Since when the answer waits that has waited longest.
    fn oldest(&self) -> Option<u32> {
        let since = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        since.filter(|&since| since > TAKEN).min()
    }
}

/// Looks after the connections of a server.
#[derive(Debug)]
pub(crate) struct Watch {
    start: Instant,
    /// The time as of the last look, which is as exactly as anybody needs it, and costs an answer no look at a clock.
    tick: AtomicU32,
    peers: Mutex<Vec<Weak<Peer>>>,
}

impl Watch {
    pub(crate) fn new(start: Instant) -> Watch {
        Watch { start, tick: AtomicU32::new(TAKEN + 1), peers: Mutex::default() }
    }

    /// A slot for an answer to a peer; `None` where nobody looks after it.
    pub(super) fn slot(&self, peer: Option<&Arc<Peer>>) -> Option<Slot> {
        let peer = peer?;
        let unread = &peer.unread;
        // The look first: it is written once in a connection's life.
        if !unread.is_listed.load(Ordering::Relaxed)
            && !unread.is_listed.swap(true, Ordering::Relaxed)
        {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.push(Arc::downgrade(peer));
        }
        Some(Slot { index: unread.take_slot()? })
    }

    /// Closes the connections of answers that have waited for longer than `timeout`; gives how many. To be called every second
    /// or so.
    pub(crate) fn cut_slow(&self, now: Instant, timeout: Duration) -> usize {
        let now = self.ticks(now);
        let looked = self.tick.swap(now, Ordering::Relaxed);
        let timeout = ticks(timeout);
        let mut n_cut = 0;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|peer| {
            let Some(peer) = peer.upgrade() else { return false };
            // As of the look before: what is said to wait since then may do so since a moment ago.
            let is_slow =
                peer.unread.oldest().is_some_and(|since| looked.saturating_sub(since) > timeout);
            if is_slow {
                tracing::warn!(
                    peer = ?peer.address,
                    "an answer has waited too long for its reader: the connection is closed"
                );
                peer.unread.cut();
                n_cut += 1;
            }
            !is_slow
        });
        n_cut
    }

    /// Never [`FREE`] or [`TAKEN`]; enough for 13 years.
    fn ticks(&self, now: Instant) -> u32 {
        ticks(now.saturating_duration_since(self.start)).saturating_add(TAKEN + 1)
    }
}

/// As exactly as waiting is measured.
const TICK: Duration = Duration::from_millis(100);

fn ticks(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

/// The slot of one answer.
#[derive(Debug)]
pub(super) struct Slot {
    index: usize,
}

impl Slot {
    /// Something was handed over: from now on it waits.
    pub(super) fn waits(&self, watch: &Watch, peer: &Peer) {
        self.of(peer).store(watch.tick.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The reader asks for more.
    pub(super) fn is_asked(&self, peer: &Peer) {
        self.of(peer).store(TAKEN, Ordering::Relaxed);
    }

    /// The answer is over.
    pub(super) fn free(&self, peer: &Peer) {
        self.of(peer).store(FREE, Ordering::Relaxed);
    }

    fn of<'a>(&self, peer: &'a Peer) -> &'a AtomicU32 {
        &peer.unread.slots[self.index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Arc<Peer> {
        Arc::new(Peer::default())
    }

    #[tokio::test]
    async fn only_an_answer_that_waits_for_long_costs_its_connection() {
        let (start, timeout) = (Instant::now(), Duration::from_secs(60));
        let watch = Watch::new(start);
        let (slow, good) = (peer(), peer());
        let waiting = watch.slot(Some(&slow)).unwrap();
        let other = watch.slot(Some(&slow)).unwrap();
        let taken = watch.slot(Some(&good)).unwrap();
        waiting.waits(&watch, &slow);
        other.waits(&watch, &slow);
        taken.waits(&watch, &good);
        assert_eq!(watch.cut_slow(start + 2 * timeout, timeout), 0, "they began just now");
        // One answer goes on: the other still waits.
        other.is_asked(&slow);
        taken.is_asked(&good);
        taken.waits(&watch, &good);
        assert_eq!(watch.cut_slow(start + 2 * timeout + TICK, timeout), 1);
        std::future::poll_fn(|context| slow.unread.poll_cut(context)).await;
        let is_good =
            std::future::poll_fn(|context| Poll::Ready(good.unread.poll_cut(context).is_pending()));
        assert!(is_good.await);
        // Once is enough.
        assert_eq!(watch.cut_slow(start + 2 * timeout + 2 * TICK, timeout), 0);
        taken.free(&good);
        assert_eq!(watch.cut_slow(start + 10 * timeout, timeout), 0);
        assert_eq!(watch.cut_slow(start + 11 * timeout, timeout), 0);
    }

    #[test]
    fn slots_are_bounded_and_used_again() {
        let watch = Watch::new(Instant::now());
        let peer = peer();
        let slots: Vec<Slot> = (0..N_SLOTS).map(|_| watch.slot(Some(&peer)).unwrap()).collect();
        assert!(watch.slot(Some(&peer)).is_none());
        slots.iter().for_each(|slot| slot.free(&peer));
        assert!((0..10 * N_SLOTS).all(|_| {
            watch.slot(Some(&peer)).is_some_and(|slot| {
                slot.free(&peer);
                true
            })
        }));
        drop(peer);
        watch.cut_slow(Instant::now(), Duration::ZERO);
        assert_eq!(watch.peers.lock().unwrap().len(), 0);
    }
}
