//! The one reader of the clocks: everything else is given the time.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The monotonic time. Deadlines and staleness are differences of it.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// How long this thread has been on a core: while it waits, for whatever or for its turn, this stands still.
#[must_use]
pub fn on_core() -> Duration {
    // Seconds and nanoseconds of a thread's life are never negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The wall clock, for what others are told of when something happened.
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970-01-01T00:00:00Z by the wall clock, for decisions that are about moments of Kubernetes objects; saturating.
#[must_use]
pub fn unix_seconds() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |n| -n),
    }
}

/// Microseconds since 1970-01-01T00:00:00Z by the wall clock; 0 before, saturating.
#[must_use]
pub fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Whole milliseconds of `duration`, saturating.
#[must_use]
pub fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
