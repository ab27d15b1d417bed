//! Unwritten responses of one connection: what has to be known once a response has reached its reader, or has not.
//!
//! The transport copies a response into a buffer of the connection and writes it later. In between the connection may
//! end, so that only a completed flush shows that the response was written. And a response that was written may lie
//! unread where a reset overtakes it: only when the peer is heard again, or has not broken the connection for a while,
//! has the response arrived.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Called once its response has arrived; dropped if it never will.
pub(crate) type Receipt = Box<dyn FnOnce() + Send>;

/// The responses of a connection that may not have arrived.
#[derive(Default)]
pub(crate) struct Unwritten {
    receipts: Mutex<Receipts>,
    /// Whether any is in the buffer, so that most flushes need no lock.
    is_any: AtomicBool,
    /// Whether any was written and the peer was not heard since, so that most reads need no lock.
    is_any_unheard: AtomicBool,
}

#[derive(Default)]
struct Receipts {
    /// In the connection's buffer.
    buffered: Vec<Receipt>,
    /// Written, and the peer was not heard since.
    unheard: Vec<Receipt>,
    /// Number of `unheard` that were so at the last check.
    n_checked: usize,
}

impl Unwritten {
    /// Adds a response that was just copied into the connection's buffer.
    pub(crate) fn add(&self, receipt: Receipt) {
        self.receipts().buffered.push(receipt);
        // The connection's task alone copies and flushes, so that it sees its own writes in order.
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Records that the whole buffer was written.
    pub(super) fn written(&self) {
        if self.is_any.swap(false, Ordering::Relaxed) {
            let mut receipts = self.receipts();
            let Receipts { buffered, unheard, .. } = &mut *receipts;
            unheard.append(buffered);
            self.is_any_unheard.store(true, Ordering::Relaxed);
        }
    }

    /// Records that the peer sent something, or ended the connection in order.
    pub(super) fn heard(&self) {
        if self.is_any_unheard.swap(false, Ordering::Relaxed) {
            let mut receipts = self.receipts();
            let arrived = std::mem::take(&mut receipts.unheard);
            receipts.n_checked = 0;
            drop(receipts);
            arrived.into_iter().for_each(|receipt| receipt());
        }
    }

    /// Takes responses as arrived that were written before the last check: the peer has not broken the connection since.
    pub(super) fn check(&self) {
        if !self.is_any_unheard.load(Ordering::Relaxed) {
            return;
        }
        let mut receipts = self.receipts();
        let n_arrived = receipts.n_checked.min(receipts.unheard.len());
        let arrived: Vec<Receipt> = receipts.unheard.drain(..n_arrived).collect();
        receipts.n_checked = receipts.unheard.len();
        drop(receipts);
        arrived.into_iter().for_each(|receipt| receipt());
    }

    /// Records that the connection has ended; `is_broken` if the peer broke it.
    pub(super) fn lost(&self, is_broken: bool) {
        if !is_broken {
            self.heard();
        }
        // What is undone is undone without the lock.
        let left = std::mem::take(&mut *self.receipts());
        drop(left);
    }

    fn receipts(&self) -> MutexGuard<'_, Receipts> {
        // No code panics while it holds the lock.
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwritten").field("is_any", &self.is_any).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn add(unwritten: &Unwritten, n_arrived: &Arc<AtomicUsize>) {
        let n_arrived = n_arrived.clone();
        unwritten.add(Box::new(move || {
            n_arrived.fetch_add(1, Ordering::Relaxed);
        }));
    }

    #[test]
    fn a_response_has_arrived_when_its_peer_is_heard() {
        let (unwritten, n) = (Unwritten::default(), Arc::default());
        unwritten.written();
        add(&unwritten, &n);
        add(&unwritten, &n);
        unwritten.heard();
        assert_eq!(n.load(Ordering::Relaxed), 0, "it is not written yet");
        unwritten.written();
        assert_eq!(n.load(Ordering::Relaxed), 0);
        unwritten.heard();
        unwritten.heard();
        assert_eq!(n.load(Ordering::Relaxed), 2);
        add(&unwritten, &n);
        unwritten.lost(false);
        assert_eq!(
            (n.load(Ordering::Relaxed), Arc::strong_count(&n)),
            (2, 1),
            "it was not written"
        );
    }

    #[test]
    fn a_silent_peer_has_a_response_after_a_while_and_a_broken_connection_has_not() {
        let (unwritten, n) = (Unwritten::default(), Arc::default());
        add(&unwritten, &n);
        unwritten.written();
        unwritten.check();
        assert_eq!(n.load(Ordering::Relaxed), 0);
        unwritten.check();
        assert_eq!(n.load(Ordering::Relaxed), 1);
        for (is_broken, expected) in [(true, 1), (false, 2)] {
            add(&unwritten, &n);
            unwritten.written();
            unwritten.lost(is_broken);
            assert_eq!((n.load(Ordering::Relaxed), Arc::strong_count(&n)), (expected, 1));
        }
    }
}
