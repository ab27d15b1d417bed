//! CoDel: sheds load where Berth has no queue of its own. Calls of microseconds wait in the runtime's queue, and all
//! that can be measured is how long each has waited when it gets a thread. A burst makes some calls wait; a standing
//! queue makes all of them wait. So, as in CoDel (RFC 8289): once every call of a whole interval has waited, those that
//! have waited for long are refused, until a call comes that has not waited.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Divisor of the limit on waiting while the queue is standing; otherwise the whole limit applies.
const STANDING_SHARE: u32 = 50;
/// Minimum number of calls in an interval to judge it.
const MIN_CALLS: u32 = 16;

/// Detects a standing queue from the waits of calls. Nothing is written on the usual path.
#[derive(Debug)]
pub(crate) struct CoDel {
    start: Instant,
    max_wait: Duration,
    /// End of the interval, in nanoseconds from the start.
    ends_at: AtomicU64,
    /// Whether some call of this interval has hardly waited.
    has_short: AtomicBool,
    /// Calls of this interval that have waited.
    n_long: AtomicU32,
    is_standing: AtomicBool,
}

impl CoDel {
    pub(crate) fn new(start: Instant, max_wait: Duration) -> CoDel {
        CoDel {
            start,
            max_wait,
            ends_at: AtomicU64::new(nanos(max_wait)),
            has_short: AtomicBool::new(false),
            n_long: AtomicU32::new(0),
            is_standing: AtomicBool::new(false),
        }
    }

    /// Records how long a call has waited; returns true if that is too long for the call to begin.
    pub(crate) fn is_too_late(&self, now: Instant, waited: Duration) -> bool {
        // Flags and counts alone: in whatever order they are seen, only a call more or less is admitted.
        let elapsed = nanos(now.saturating_duration_since(self.start));
        if elapsed >= self.ends_at.load(Ordering::Relaxed) {
            self.begin_interval(elapsed);
        }
        let limit = self.max_wait / STANDING_SHARE;
        // Half of the limit: while the queue stands, admitted calls have waited for almost all of it.
        if waited <= limit / 2 {
            if !self.has_short.load(Ordering::Relaxed) {
                self.has_short.store(true, Ordering::Relaxed);
            }
            return false;
        }
        self.n_long.fetch_add(1, Ordering::Relaxed);
        waited > if self.is_standing.load(Ordering::Relaxed) { limit } else { self.max_wait }
    }

    /// Delay before a retry: after the interval in which an end of the queue is noticed.
    pub(crate) fn retry_after(&self) -> Duration {
        self.max_wait
    }

    fn begin_interval(&self, elapsed: u64) {
        let ended = self.ends_at.load(Ordering::Relaxed);
        let next = elapsed.saturating_add(nanos(self.max_wait));
        let is_mine = elapsed >= ended
            && self
                .ends_at
                .compare_exchange(ended, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            let has_short = self.has_short.swap(false, Ordering::Relaxed);
            let n_long = self.n_long.swap(0, Ordering::Relaxed);
            self.is_standing.store(!has_short && n_long >= MIN_CALLS, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds of a duration; 64 bits hold half a millennium.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs calls a millisecond apart, each having waited for `waited`; returns how many were admitted.
    fn run(codel: &CoDel, now: &mut Instant, n_calls: usize, waited: Duration) -> usize {
        (0..n_calls)
            .filter(|_| {
                *now += MS;
                !codel.is_too_late(*now, waited)
            })
            .count()
    }

    #[test]
    fn a_burst_is_let_in_and_a_standing_queue_is_cut() {
        let mut now = Instant::now();
        let codel = CoDel::new(now, 100 * MS);
        // Calls have not waited for a whole interval yet.
        assert_eq!(run(&codel, &mut now, 99, 50 * MS), 99);
        assert_eq!(run(&codel, &mut now, 100, 50 * MS), 0);
        // The queue stands for as long as all calls have waited for more than half of the allowed wait.
        assert_eq!(run(&codel, &mut now, 300, 2 * MS), 300);
        assert_eq!(run(&codel, &mut now, 100, 3 * MS), 0);
        // One call that hardly waited ends it, from the next interval on.
        assert_eq!(run(&codel, &mut now, 1, MS / 10), 1);
        assert_eq!(run(&codel, &mut now, 101, 2 * MS), 101);
        assert_eq!(run(&codel, &mut now, 50, 50 * MS), 50);
    }

    #[test]
    fn a_few_late_calls_are_no_queue() {
        let mut now = Instant::now();
        let codel = CoDel::new(now, 100 * MS);
        for _ in 0..50 {
            now += 10 * MS;
            assert!(!codel.is_too_late(now, 90 * MS));
        }
        assert!(codel.is_too_late(now, 101 * MS));
    }

    proptest! {
        /// One queue, one worker, any load: an admitted call has never waited longer than the limit, and while the
        /// queue stands not longer than its share; a load that the worker can carry is never refused.
        #[test]
        fn a_worker_under_load(service_us in 10_u64..200, load_percent in 10_u64..1_000) {
            let (start, max_wait) = (Instant::now(), 100 * MS);
            let codel = CoDel::new(start, max_wait);
            let service = Duration::from_micros(service_us);
            let gap = service * 100 / u32::try_from(load_percent).unwrap();
            let (mut arrives, mut free, mut n_refused) = (start, start, 0_u32);
            while arrives < start + 10 * max_wait {
                arrives += gap;
                let begins = free.max(arrives);
                let waited = begins - arrives;
                if codel.is_too_late(begins, waited) {
                    n_refused += 1;
                    continue;
                }
                free = begins + service;
                prop_assert!(waited <= max_wait);
                if arrives > start + 6 * max_wait {
                    prop_assert!(waited <= max_wait / STANDING_SHARE + service || load_percent <= 130);
                }
            }
            prop_assert!(load_percent >= 100 || n_refused == 0);
        }
    }
}
