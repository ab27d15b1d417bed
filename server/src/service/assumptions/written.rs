//! Whether a change of assumptions is in the ledger.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::ledger::GrantError;
use crate::service::error::CallError;

/// Outcome of a write.
pub(super) type Outcome = Result<(), GrantError>;

/// A change that is being written, or that needs no ledger. A caller hears of the change only once it is written.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Written(Option<oneshot::Receiver<Outcome>>);

impl Written {
    /// A change that is being written, and what tells its outcome.
    pub(super) fn pending() -> (oneshot::Sender<Outcome>, Written) {
        let (outcome, written) = oneshot::channel();
        (outcome, Written(Some(written)))
    }

    /// A change that cannot be written: a bug.
    pub(super) fn broken() -> Written {
        // Whoever waits finds the sender gone.
        Written::pending().1
    }
}

/// # Errors
/// [`CallError::NotGranted`] if the change was not written, or it is not known whether it was.
impl Future for Written {
    type Output = Result<(), CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let outcome = ready!(Pin::new(outcome).poll(cx));
        // Polled again after that, it is over.
        self.0 = None;
        Poll::Ready(match outcome {
            Ok(written) => written.map_err(CallError::from),
            Err(_) => Err(CallError::Broken),
        })
    }
}
