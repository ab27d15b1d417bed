//! WriteTimeout: time limit for a peer that does not read what it is sent. Otherwise its connection would keep its
//! slot, and the responses in it their memory, for as long as the peer likes.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::clock;

/// Watches the writes of one connection.
pub(super) struct WriteTimeout {
    patience: Duration,
    /// Timer, kept so that a connection that is often full allocates once.
    until: Option<Pin<Box<Sleep>>>,
    is_stalled: bool,
}

impl WriteTimeout {
    /// Creates a timeout; `patience` is how long a write may make no progress.
    pub(super) fn new(patience: Duration) -> WriteTimeout {
        WriteTimeout { patience, until: None, is_stalled: false }
    }

    /// Returns `outcome` of a write, or an error instead if nothing was written for too long.
    pub(super) fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.is_stalled = false;
            return outcome;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        if !std::mem::replace(&mut self.is_stalled, true) {
            until.as_mut().reset((clock::now() + self.patience).into());
        }
        ready!(until.as_mut().poll(context));
        let patience = self.patience;
        let reason = format!("the peer has taken nothing for {patience:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn only_a_write_that_makes_no_progress_is_given_up() {
        let mut stall = WriteTimeout::new(Duration::from_millis(20));
        for round in 0..3 {
            // Pending a few times, for less than `patience` each time or not: only progress restarts the time.
            let given_up: io::Result<()> =
                poll_fn(|context| stall.watch(context, Poll::Pending)).await;
            assert_eq!(given_up.unwrap_err().kind(), io::ErrorKind::TimedOut, "{round}");
            let progress = poll_fn(|context| stall.watch(context, Poll::Ready(Ok(round)))).await;
            assert_eq!(progress.unwrap(), round);
        }
        // After progress the time starts anew, although the timer is that of the last stall and has already fired.
        let first = poll_fn(|context| {
            let outcome: Poll<io::Result<()>> = stall.watch(context, Poll::Pending);
            Poll::Ready(outcome.is_pending())
        });
        assert!(first.await);
    }
}
