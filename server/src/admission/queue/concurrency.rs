//! Concurrency: how many workers work at a time while the queue stands. Where there are more than cores to be had, for refusing is
//! work as well and so is whatever else the machine does, no more is done by all of them: each call only takes longer. How much of
//! the time that calls take they spend on a core tells. One that waits for a lock or for threads that help it has none either: nor
//! would another beside it have more.

use std::time::{Duration, Instant};

/// With less of their time on a core, calls are in each other's way.
const CROWDED: f64 = 0.8;
/// With more, there is a core for another.
const ROOMY: f64 = 0.95;
/// So many intervals have to be roomy one after the other: another worker is a trial, and while it fails all calls are slow.
const PATIENCE: u32 = 10;
/// Fewer calls say nothing.
const MIN_CALLS: u32 = 16;

/// What a call took of a worker.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// From begin to end.
    pub(crate) time: Duration,
    /// Of that, on a core.
    pub(crate) on_core: Duration,
}

/// Watches the workers of one queue.
#[derive(Debug)]
pub(super) struct Concurrency {
    n_workers: usize,
    limit: usize,
    interval: Duration,
    /// When the interval began, once a call has been carried out.
    began: Option<Instant>,
    n_calls: u32,
    /// Roomy intervals, up to now.
    n_roomy: u32,
    /// Of the calls of this interval.
    sum: Service,
}

impl Concurrency {
    /// The limit changes once an interval at most.
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

    /// Workers that get a core each: half of all at least, for it may be others who crowd the machine, and nothing done makes
    /// room then.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A call has been carried out.
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

    /// The limit after so many calls, one every 10 ms, that spend so much of their 10 ms on a core.
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
    fn a_worker_for_each_core_that_is_to_be_had() {
        let (mut concurrency, mut now) = (Concurrency::new(16, 100 * MS), Instant::now());
        // Fewer than say anything.
        assert_eq!(after(&mut concurrency, &mut now, 15, 7 * MS), 16);
        assert_eq!(after(&mut concurrency, &mut now, 1, 7 * MS), 11);
        // Neither crowded nor roomy.
        assert_eq!(after(&mut concurrency, &mut now, 320, 9 * MS), 11);
        // One more after ten roomy intervals, unless there is another between.
        assert_eq!(after(&mut concurrency, &mut now, 144, 10 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 16, 9 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 159, 10 * MS), 11);
        assert_eq!(after(&mut concurrency, &mut now, 1, 10 * MS), 12);
        // Never more than there are.
        assert_eq!(after(&mut concurrency, &mut now, 1_600, 10 * MS), 16);
    }

    #[test]
    fn half_of_all_whatever_crowds_the_machine() {
        for (n_workers, half) in [(1, 1), (2, 1), (3, 2), (16, 8)] {
            let (mut concurrency, mut now) = (Concurrency::new(n_workers, MS), Instant::now());
            assert_eq!(after(&mut concurrency, &mut now, 160, Duration::ZERO), half);
        }
    }

    /// Calls that take no time at all, by a clock that does not see them.
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
