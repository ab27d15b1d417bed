//! Unwritten responses of one connection: what has to be known once a response has left the server, or has not.
//!
//! The transport copies a response into a buffer of the connection and writes it later. In between the connection may
//! end, so that only a completed flush shows that the response was written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Called once its response was written; dropped if it never will be.
pub(crate) type Receipt = Box<dyn FnOnce() + Send>;

/// The responses in a connection's buffer.
#[derive(Default)]
pub(crate) struct Unwritten {
    receipts: Mutex<Vec<Receipt>>,
    /// Whether there are any, so that most flushes need no lock.
    is_any: AtomicBool,
}

impl Unwritten {
    /// Adds a response that was just copied into the connection's buffer.
    pub(crate) fn add(&self, receipt: Receipt) {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner).push(receipt);
        // The connection's task alone copies and flushes, so that it sees its own writes in order.
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Records that the whole buffer was written.
    pub(super) fn written(&self) {
        if self.is_any.swap(false, Ordering::Relaxed) {
            self.take().into_iter().for_each(|receipt| receipt());
        }
    }

    /// Records that the connection has ended.
    pub(super) fn lost(&self) {
        drop(self.take());
    }

    fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut *self.receipts.lock().unwrap_or_else(PoisonError::into_inner))
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

    #[test]
    fn a_response_counts_as_written_when_the_buffer_is_empty() {
        let unwritten = Unwritten::default();
        let n_written = Arc::new(AtomicUsize::new(0));
        let add = || {
            let n_written = n_written.clone();
            unwritten.add(Box::new(move || {
                n_written.fetch_add(1, Ordering::Relaxed);
            }));
        };
        unwritten.written();
        add();
        add();
        assert_eq!(n_written.load(Ordering::Relaxed), 0);
        unwritten.written();
        unwritten.written();
        assert_eq!(n_written.load(Ordering::Relaxed), 2);
        add();
        unwritten.lost();
        unwritten.written();
        assert_eq!(n_written.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&n_written), 1, "nothing is kept");
    }
}
