//! How long a call may take: the `grpc-timeout` header, and the sign by which long work learns that nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::status::CallError;
use crate::clock;

/// When the caller gives up, if it said so. Travels in the request's extensions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(pub(crate) Option<Instant>);

impl Deadline {
    /// The deadline that [`super::CallService`] noted; none for a request that did not come through it.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Deadline {
        request.extensions().get::<Deadline>().copied().unwrap_or(Deadline(None))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|at| clock::now() >= at)
    }
}

/// Parses `grpc-timeout`: up to 8 digits and a unit of `HMSmun`. Anything else is no timeout, as in other servers.
pub fn parse_timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

/// Tells a job that nobody waits for it: the deadline has passed, or the call is gone.
#[derive(Clone, Debug)]
pub(crate) struct Cancel {
    deadline: Deadline,
    gone: Arc<AtomicBool>,
}

impl Cancel {
    pub(crate) fn is_cancelled(&self) -> bool {
        // A flag alone: no data is read on the strength of it.
        self.gone.load(Ordering::Relaxed) || self.deadline.has_passed()
    }

    /// # Errors
    /// `DEADLINE_EXCEEDED` where it is cancelled.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        if self.is_cancelled() { Err(CallError::DeadlineExceeded) } else { Ok(()) }
    }
}

/// Lives in the handler's future: dropping it unfinished (the client went away) cancels the job.
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
    fn timeouts_are_read_in_every_unit() {
        let check = |text: &str, expected: Option<Duration>| {
            assert_eq!(parse_timeout(text), expected, "{text}")
        };
        check("1H", Some(Duration::from_secs(3600)));
        check("2M", Some(Duration::from_secs(120)));
        check("3S", Some(Duration::from_secs(3)));
        check("40m", Some(Duration::from_millis(40)));
        check("5u", Some(Duration::from_micros(5)));
        check("99999999n", Some(Duration::from_nanos(99_999_999)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "1é"] {
            check(bad, None);
        }
    }

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
