//! The only module that reads clocks; all others get the time as an argument.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The monotonic time, from whose differences deadlines and staleness are computed.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// CPU time of this thread. It does not advance while the thread waits.
#[must_use]
pub fn on_core() -> Duration {
    // Seconds and nanoseconds of a thread's life are never negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The wall clock, for times that are reported to others.
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970-01-01T00:00:00Z by the wall clock, for decisions that involve times in Kubernetes objects;
/// saturating.
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
