//! Slow readers: connections whose client leaves a response unread for too long are closed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::peer::Peer;
use super::unread::TAKEN;
use crate::telemetry::LogLimit;

/// Watches the connections of a server.
#[derive(Debug)]
pub(crate) struct SlowReaders {
    start: Instant,
    /// The time of the last check: exact enough, so that a response needs no clock reading.
    tick: AtomicU32,
    peers: Mutex<Vec<Weak<Peer>>>,
    log: LogLimit,
}

impl SlowReaders {
    pub(crate) fn new(start: Instant) -> SlowReaders {
        SlowReaders {
            start,
            tick: AtomicU32::new(TAKEN + 1),
            peers: Mutex::default(),
            log: LogLimit::default(),
        }
    }

    /// A slot for a response to a peer; `None` if the peer is unknown or all its slots are taken.
    pub(crate) fn slot(&self, peer: Option<&Arc<Peer>>) -> Option<ResponseSlot> {
        let peer = peer?;
        if peer.unread.list() {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.push(Arc::downgrade(peer));
        }
        Some(ResponseSlot { index: peer.unread.take_slot()? })
    }

    /// Closes the connections of responses that have waited for longer than `timeout`; returns their number. Called
    /// about every second.
    pub(crate) fn cut_slow(&self, now: Instant, timeout: Duration) -> usize {
        let (at, now) = (now, self.ticks(now));
        let last_check = self.tick.swap(now, Ordering::Relaxed);
        let timeout = ticks(timeout);
        let mut n_cut = 0;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|peer| {
            let Some(peer) = peer.upgrade() else { return false };
            peer.unwritten.check();
            // Compared with the check before: a response marked with that tick may have waited for a moment only.
            let is_slow = peer
                .unread
                .oldest()
                .is_some_and(|since| last_check.saturating_sub(since) > timeout);
            if is_slow {
                if let Some(n_more) = self.log.admit(at) {
                    tracing::warn!(
                        n_more,
                        peer = ?peer.address,
                        "a response waited too long for its reader: the connection is closed"
                    );
                }
                peer.unread.cut();
                n_cut += 1;
            }
            !is_slow
        });
        n_cut
    }

    /// The tick at `now`, above [`TAKEN`]; the number suffices for 13 years.
    fn ticks(&self, now: Instant) -> u32 {
        ticks(now.saturating_duration_since(self.start)).saturating_add(TAKEN + 1)
    }
}

/// Resolution of the measured waits.
const TICK: Duration = Duration::from_millis(100);

fn ticks(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

/// The slot of one response.
#[derive(Debug)]
pub(crate) struct ResponseSlot {
    index: usize,
}

impl ResponseSlot {
    /// Marks that data was handed to the connection: from now on the response waits for its reader.
    pub(crate) fn waits(&self, readers: &SlowReaders, peer: &Peer) {
        peer.unread.set(self.index, readers.tick.load(Ordering::Relaxed));
    }

    /// Marks that the reader has taken all of the data.
    pub(crate) fn is_read(&self, peer: &Peer) {
        peer.unread.set(self.index, TAKEN);
    }

    /// Frees the slot: the response is over.
    pub(crate) fn free(&self, peer: &Peer) {
        peer.unread.free(self.index);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::super::unread::N_SLOTS;
    use super::*;

    fn peer() -> Arc<Peer> {
        Arc::new(Peer::default())
    }

    #[tokio::test]
    async fn only_a_response_that_waits_long_closes_its_connection() {
        let (start, timeout) = (Instant::now(), Duration::from_secs(60));
        let watch = SlowReaders::new(start);
        let (slow, good) = (peer(), peer());
        let waiting = watch.slot(Some(&slow)).unwrap();
        let other = watch.slot(Some(&slow)).unwrap();
        let taken = watch.slot(Some(&good)).unwrap();
        waiting.waits(&watch, &slow);
        other.waits(&watch, &slow);
        taken.waits(&watch, &good);
        assert_eq!(watch.cut_slow(start + 2 * timeout, timeout), 0, "they began just now");
        // One response makes progress: the other still waits.
        other.is_read(&slow);
        taken.is_read(&good);
        taken.waits(&watch, &good);
        assert_eq!(watch.cut_slow(start + 2 * timeout + TICK, timeout), 1);
        std::future::poll_fn(|context| slow.unread.poll_cut(context)).await;
        let is_good =
            std::future::poll_fn(|context| Poll::Ready(good.unread.poll_cut(context).is_pending()));
        assert!(is_good.await);
        // A connection is closed once only.
        assert_eq!(watch.cut_slow(start + 2 * timeout + 2 * TICK, timeout), 0);
        taken.free(&good);
        assert_eq!(watch.cut_slow(start + 10 * timeout, timeout), 0);
        assert_eq!(watch.cut_slow(start + 11 * timeout, timeout), 0);
    }

    #[test]
    fn slots_are_bounded_and_used_again() {
        let watch = SlowReaders::new(Instant::now());
        let peer = peer();
        let slots: Vec<ResponseSlot> =
            (0..N_SLOTS).map(|_| watch.slot(Some(&peer)).unwrap()).collect();
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
