//! Concurrency: how many workers run at a time while the queue stands. More workers than available cores get no more
//! done: each call only takes longer, since refusing calls and other processes need cores as well. The measure is the
//! share of their time that calls spend on a core. A call that waits for a lock, or for threads that help it, is not on
//! a core either; another worker beside it would not help.

use std::time::{Duration, Instant};

/// Share of time on a core below which calls are in each other's way.
const CROWDED: f64 = 0.8;
/// Share of time on a core above which there is a core for another worker.
const ROOMY: f64 = 0.95;
/// Number of consecutive roomy intervals before another worker is tried: while such a trial fails, all calls are slow.
const PATIENCE: u32 = 10;
/// Minimum number of calls in an interval to judge it.
const MIN_CALLS: u32 = 16;

/// Time that a worker spent on a call.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// Time from begin to end.
    pub(crate) time: Duration,
    /// Part of `time` on a core.
    pub(crate) on_core: Duration,
}

/// Adapts the number of workers of one queue.
#[derive(Debug)]
pub(super) struct Concurrency {
    n_workers: usize,
    limit: usize,
    interval: Duration,
    /// Begin of the interval; set by the first call that ends.
    began: Option<Instant>,
    n_calls: u32,
    /// Number of consecutive roomy intervals.
    n_roomy: u32,
    /// Sum over the calls of this interval.
    sum: Service,
}

impl Concurrency {
    /// Creates one whose limit changes at most once per `interval`.
    pub(super) fn new(n_workers: usize, interval: Duration) -> Concurrency {
        Concurrency {
            n_workers,
            limit: n_workers,
            interval,
            began: None,
            n_calls: 0,
            n_roomy: 0,
            sum: Service::default(),
        }
    }

    /// Number of workers that get a core each. At least half of them all: other processes may crowd the machine, and
    /// then running fewer workers frees no core.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Records a call that has ended.
    pub(super) fn add(&mut self, now: Instant, service: Service) {
        let began = *self.began.get_or_insert(now);
        self.n_calls += 1;
        self.sum.time += service.time;
        self.sum.on_core += service.on_core;
        if self.n_calls >= MIN_CALLS && now - began >= self.interval {
            self.judge();
            (self.began, self.n_calls, self.sum) = (Some(now), 0, Service::default());
        }
    }

    fn judge(&mut self) {
        let share = self.sum.on_core.div_duration_f64(self.sum.time);
        self.n_roomy = if share > ROOMY { self.n_roomy + 1 } else { 0 };
        let limit = if share < CROWDED {
            times(self.limit, share)
        } else if self.n_roomy == PATIENCE {
            self.n_roomy = 0;
            self.limit + 1
        } else {
            self.limit
        };
        self.limit = limit.clamp(self.n_workers.div_ceil(2), self.n_workers);
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "threads of one machine, and a share of them"
)]
fn times(n_workers: usize, share: f64) -> usize {
    (n_workers as f64 * share).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs calls, one every 10 ms, that spend `on_core` of their 10 ms on a core; returns the limit after them.
    fn after(
        concurrency: &mut Concurrency,
        now: &mut Instant,
        n_calls: u32,
        on_core: Duration,
    ) -> usize {
        for _ in 0..n_calls {
            *now += 10 * MS;
            concurrency.add(*now, Service { time: 10 * MS, on_core });
        }
        concurrency.limit()
    }

    #[test]
    fn there_are_as_many_workers_as_available_cores() {
        let (mut concurrency, mut now) = (Concurrency::new(16, 100 * MS), Instant::now());
        // Too few calls to judge.
        assert_eq!(after(&mut concurrency, &mut now, 15, 7 * MS), 16);
        assert_eq!(after(&mut concurrency, &mut now, 1, 7 * MS), 11);
        // Neither crowded nor roomy.
        assert_eq!(after(&mut concurrency, &mut now, 320, 9 * MS), 11);
        // One worker more after ten roomy intervals, unless another interval comes between.
        assert_eq!(after(&mut concurrency, &mut now, 144, 10 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 16, 9 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 159, 10 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 1, 10 * MS), 12);
        // Never more than there are workers.
        assert_eq!(after(&mut concurrency, &mut now, 1_600, 10 * MS), 16);
    }

    #[test]
    fn half_of_all_whatever_crowds_the_machine() {
        for (n_workers, half) in [(1, 1), (2, 1), (3, 2), (16, 8)] {
            let (mut concurrency, mut now) = (Concurrency::new(n_workers, MS), Instant::now());
            assert_eq!(after(&mut concurrency, &mut now, 160, Duration::ZERO), half);
        }
    }

    /// Calls that take no time at all on a coarse clock.
    #[test]
    fn no_time_is_no_crowd() {
        let mut concurrency = Concurrency::new(4, MS);
        let start = Instant::now();
        for n in 0..160 {
            concurrency.add(start + n * MS, Service::default());
        }
        assert_eq!(concurrency.limit(), 4);
    }

    #[test]
    fn not_before_the_interval_is_over() {
        let mut concurrency = Concurrency::new(2, 100 * MS);
        let start = Instant::now();
        for n in 0..100 {
            concurrency.add(start + n * MS, Service { time: 2 * MS, on_core: MS });
            assert_eq!(concurrency.limit(), 2);
        }
        concurrency.add(start + 100 * MS, Service { time: 2 * MS, on_core: MS });
        assert_eq!(concurrency.limit(), 1);
    }
}
