//! The one reader of the clock: everything else is given the time.

use std::time::{Duration, Instant};

/// The monotonic time. Deadlines and staleness are differences of it.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Whole milliseconds of `duration`, saturating.
#[must_use]
pub fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
