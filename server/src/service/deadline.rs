//! Time limit of a call: the `grpc-timeout` header, and the cancellation of long work whose caller is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::error::CallError;
use crate::clock;

/// Time at which the caller gives up, if it set one. Travels in the request's extensions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(pub(crate) Option<Instant>);

impl Deadline {
    /// The deadline in a request's extensions; none if the transport put none there.
    pub(crate) fn of(extensions: &http::Extensions) -> Deadline {
        extensions.get::<Deadline>().copied().unwrap_or(Deadline(None))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|at| clock::now() >= at)
    }
}

/// Cancellation of a job: set once the deadline has passed or the call is gone.
#[derive(Clone, Debug)]
pub(crate) struct Cancel {
    deadline: Deadline,
    gone: Arc<AtomicBool>,
}

impl Cancel {
    pub(crate) fn is_cancelled(&self) -> bool {
        // The flag alone is shared: no other data depends on its ordering.
        self.gone.load(Ordering::Relaxed) || self.deadline.has_passed()
    }

    /// # Errors
    /// `DEADLINE_EXCEEDED` where it is cancelled.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        if self.is_cancelled() { Err(CallError::DeadlineExceeded) } else { Ok(()) }
    }
}

/// Guard in the handler's future: dropping it unfinished (the client went away) cancels the job.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Cancel);

impl CancelOnDrop {
    pub(crate) fn new(deadline: Deadline) -> CancelOnDrop {
        CancelOnDrop(Cancel { deadline, gone: Arc::new(AtomicBool::new(false)) })
    }

    pub(crate) fn token(&self) -> Cancel {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_call_cancels_its_job() {
        let guard = CancelOnDrop::new(Deadline(None));
        let token = guard.token();
        assert!(!token.is_cancelled());
        drop(guard);
        assert!(token.is_cancelled());
        assert!(CancelOnDrop::new(Deadline(Some(clock::now()))).token().is_cancelled());
    }
}
