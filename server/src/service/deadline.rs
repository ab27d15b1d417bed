//! Time limit of a call: the `grpc-timeout` header, and the cancellation of long work whose caller is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::error::CallError;
use crate::clock;

/// Time at which the caller gives up, if it set one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadline(pub(crate) Option<Instant>);

impl Deadline {
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

/// The value of `grpc-timeout`: up to 8 digits, rounded up to the finest unit that holds the duration.
pub(crate) fn grpc_timeout(timeout: Duration) -> Option<HeaderValue> {
    const MAX: u128 = 99_999_999;
    let units = [(1, "n"), (1_000, "u"), (1_000_000, "m"), (1_000_000_000, "S")];
    let fitting = units.iter().find(|(nanos, _)| timeout.as_nanos().div_ceil(*nanos) <= MAX);
    let (nanos, unit) = fitting.unwrap_or(&units[3]);
    let n = timeout.as_nanos().div_ceil(*nanos).min(MAX);
    HeaderValue::from_str(&format!("{n}{unit}")).ok()
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

    #[test]
    fn a_timeout_keeps_its_length_within_eight_digits() {
        let header = |timeout| grpc_timeout(timeout).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header(Duration::ZERO), "0n");
        assert_eq!(header(Duration::from_nanos(99_999_999)), "99999999n");
        assert_eq!(header(Duration::from_millis(100)), "100000u");
        assert_eq!(header(Duration::from_secs(100)), "100000m");
        assert_eq!(header(Duration::from_nanos(100_000_001)), "100001u");
        assert_eq!(header(Duration::from_secs(100_000)), "100000S");
        assert_eq!(header(Duration::MAX), "99999999S");
    }
}
