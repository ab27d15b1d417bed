//! Whether a change of assumptions is in the ledger.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::ledger::GrantError;
use crate::service::error::CallError;

/// Outcome of a write.
pub(super) type Outcome = Result<(), GrantError>;

/// Changes that are being written, or that need no ledger. A caller hears of them only once they are written.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Written(Vec<oneshot::Receiver<Outcome>>);

impl Written {
    /// A change that is being written, and what tells its outcome.
    pub(super) fn pending() -> (oneshot::Sender<Outcome>, Written) {
        let (outcome, written) = oneshot::channel();
        (outcome, Written(vec![written]))
    }

    /// A change that is not written.
    pub(super) fn refused(error: GrantError) -> Written {
        let (outcome, written) = Written::pending();
        drop(outcome.send(Err(error)));
        written
    }

    /// A change that cannot be written: a bug.
    pub(super) fn broken() -> Written {
        // Whoever waits finds the sender gone.
        Written::pending().1
    }

    /// These changes and others.
    pub(super) fn and(mut self, others: Written) -> Written {
        self.0.extend(others.0);
        self
    }
}

/// # Errors
/// [`CallError::NotGranted`] if a change was not written, or it is not known whether it was.
impl Future for Written {
    type Output = Result<(), CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(last) = self.0.last_mut() {
            let outcome = ready!(Pin::new(last).poll(cx));
            self.0.pop();
            outcome.map_err(|_| CallError::Broken)?.map_err(CallError::from)?;
        }
        Poll::Ready(Ok(()))
    }
}
