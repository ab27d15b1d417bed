//! [`BindLimit`]: how many bindings are sent at a time: as many as keep the API server busy, and a few that wait there.
//!
//! A request that waits in the API server takes longer than one that does not. Of `limit` requests in flight that take
//! `time` where one that does not wait takes `base`, `limit × base / time` are worked on and the others wait (Little's
//! law). The limit is set to those that are worked on and the square root of the limit besides: it grows as long as
//! nothing waits, and comes to rest where a few do.

use std::time::{Duration, Instant};

/// First limit: what any API server takes.
const FIRST: usize = 16;
/// Minimum number of bindings by which the limit is set.
const MIN_SAMPLE: usize = 16;
/// Interval at which `base` is measured anew: the API server, or the way to it, may have changed.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Share of the limit at which it is measured: so few that none waits.
const PROBE_SHARE: f64 = 0.25;
/// Factor of the limit after a refusal, or a response that did not come.
const AFTER_REFUSAL: f64 = 0.5;

/// Adapts the number of bindings in flight.
#[derive(Debug)]
pub(super) struct BindLimit {
    max: usize,
    limit: usize,
    /// Time of a binding that does not wait.
    base: Option<Duration>,
    sample: Sample,
    /// Use of the next complete sample: to set the limit, to be dropped, or to become `base`.
    phase: Phase,
    probed: Instant,
}

/// Bindings that ended since the limit was last set.
#[derive(Debug, Default)]
struct Sample {
    n: usize,
    time: Duration,
    /// Whether all slots were taken when one of them ended: else a higher limit would not be used.
    was_full: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The limit is set by the sample.
    Adapting,
    /// The limit was lowered; the bindings that end now were sent before.
    Draining { then: usize },
    /// The sample becomes `base`, and the limit what it was.
    Probing { then: usize },
}

/// How a binding ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an answer of the API server, even if it refused the pod.
    Answered,
    /// The API server had no room for the request, or did not answer.
    Overloaded,
}

impl BindLimit {
    /// A limit of 1 to `max`.
    pub(super) fn new(max: usize, now: Instant) -> BindLimit {
        let max = max.max(1);
        BindLimit {
            max,
            limit: FIRST.min(max),
            base: None,
            sample: Sample::default(),
            phase: Phase::Adapting,
            probed: now,
        }
    }

    /// Number of bindings that may be in flight.
    pub(super) fn get(&self) -> usize {
        self.limit
    }

    /// Records a binding that took `time`; `is_full` if no slot was free when it ended.
    pub(super) fn ended(&mut self, how: Ended, time: Duration, is_full: bool, now: Instant) {
        if how == Ended::Overloaded {
            // Once for all that are in flight together.
            if self.phase == Phase::Adapting {
                let halved = scaled(self.limit, AFTER_REFUSAL);
                (self.limit, self.phase) = (halved, Phase::Draining { then: halved });
            }
            self.sample = Sample::default();
            return;
        }
        self.sample.n += 1;
        self.sample.time += time;
        self.sample.was_full |= is_full;
        if self.sample.n < self.limit.max(MIN_SAMPLE) {
            return;
        }
        let sample = std::mem::take(&mut self.sample);
        let mean = sample.time.div_f64(real(sample.n));
        match self.phase {
            Phase::Draining { then } => self.phase = Phase::Probing { then },
            Phase::Probing { then } => {
                self.base = Some(mean);
                (self.limit, self.phase, self.probed) = (then, Phase::Adapting, now);
            }
            Phase::Adapting => self.adapt(mean, sample.was_full, now),
        }
    }

    fn adapt(&mut self, mean: Duration, was_full: bool, now: Instant) {
        let base = self.base.map_or(mean, |base| base.min(mean));
        self.base = Some(base);
        if !was_full {
            return;
        }
        if now.saturating_duration_since(self.probed) >= PROBE_INTERVAL {
            self.phase = Phase::Draining { then: self.limit };
            self.limit = scaled(self.limit, PROBE_SHARE);
            return;
        }
        let worked_on = if mean.is_zero() { 1.0 } else { base.div_duration_f64(mean) };
        let limit = real(self.limit);
        self.limit = scaled(self.limit, worked_on + limit.sqrt() / limit).min(self.max);
    }
}

/// `n × factor`, rounded; at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of requests, which is small, times a small factor"
)]
fn scaled(n: usize, factor: f64) -> usize {
    ((real(n) * factor).round() as usize).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "a number of requests")]
fn real(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const MS: Duration = Duration::from_millis(1);

    /// An API server that works on `capacity` requests at a time, each for `service`; the others wait in their order.
    struct Peer {
        capacity: usize,
        service: Duration,
    }

    impl Peer {
        /// Sends bindings for `time`, as many as the limit allows at any moment. Returns bindings a second, and the mean
        /// number that waited at the API server.
        fn run(&self, limit: &mut BindLimit, now: &mut Instant, time: Duration) -> (f64, f64) {
            let end = *now + time;
            // Ends of the requests in flight, by the slot of the API server that works on them, and when they were sent.
            let mut in_flight: Vec<(Instant, Instant)> = Vec::new();
            let mut slots = vec![*now; self.capacity];
            let (mut n, mut n_waiting) = (0, 0.0);
            while *now < end {
                while in_flight.len() < limit.get() {
                    let slot = slots.iter_mut().min().unwrap();
                    *slot = (*slot).max(*now) + self.service;
                    in_flight.push((*slot, *now));
                }
                let first = (0..in_flight.len()).min_by_key(|&i| in_flight[i]).unwrap();
                n_waiting += real(in_flight.len().saturating_sub(self.capacity));
                let (ends, sent) = in_flight.swap_remove(first);
                *now = ends;
                n += 1;
                limit.ended(Ended::Answered, ends - sent, in_flight.len() + 1 >= limit.get(), *now);
            }
            (real(n) / time.as_secs_f64(), n_waiting / real(n))
        }
    }

    #[test]
    fn the_api_server_is_kept_busy_and_few_wait_there() {
        for (capacity, ms) in [(1, 2), (8, 8), (40, 8), (200, 20)] {
            let peer = Peer { capacity, service: ms * MS };
            let mut now = clock::now();
            let mut limit = BindLimit::new(1_000, now);
            peer.run(&mut limit, &mut now, 5_000 * MS);
            // Long enough for several probes.
            let (rate, n_waiting) = peer.run(&mut limit, &mut now, 60_000 * MS);
            let most = real(capacity) / (ms * MS).as_secs_f64();
            assert!(rate >= 0.98 * most, "{capacity} at a time: {rate:.0} of {most:.0}");
            let few = 2.0 * real(capacity).sqrt() + 3.0;
            assert!(n_waiting <= few, "{capacity} at a time: {n_waiting:.1} wait");
        }
    }

    #[test]
    fn the_limit_follows_an_api_server_that_becomes_slower_or_faster() {
        let mut now = clock::now();
        let mut limit = BindLimit::new(1_000, now);
        for (capacity, ms) in [(50, 5), (10, 40), (50, 5), (3, 3)] {
            let peer = Peer { capacity, service: ms * MS };
            peer.run(&mut limit, &mut now, 30_000 * MS);
            let (rate, n_waiting) = peer.run(&mut limit, &mut now, 30_000 * MS);
            let most = real(capacity) / (ms * MS).as_secs_f64();
            assert!(rate >= 0.97 * most, "{capacity} for {ms} ms: {rate:.0} of {most:.0}");
            assert!(n_waiting <= 20.0, "{capacity} for {ms} ms: {n_waiting:.1} wait");
        }
    }

    #[test]
    fn never_more_than_the_maximum_nor_none() {
        let mut now = clock::now();
        let mut limit = BindLimit::new(20, now);
        Peer { capacity: 100, service: 5 * MS }.run(&mut limit, &mut now, 5_000 * MS);
        assert_eq!(limit.get(), 20);
        for _ in 0..100 {
            limit.ended(Ended::Overloaded, MS, true, now);
            for _ in 0..200 {
                limit.ended(Ended::Answered, 5 * MS, false, now);
            }
        }
        assert!((1..=2).contains(&limit.get()), "{}", limit.get());
        assert_eq!(BindLimit::new(0, now).get(), 1);
    }

    #[test]
    fn a_burst_of_refusals_halves_the_limit_once() {
        let now = clock::now();
        let mut limit = BindLimit::new(100, now);
        for _ in 0..16 {
            limit.ended(Ended::Overloaded, MS, true, now);
        }
        assert_eq!(limit.get(), 8);
    }

    #[test]
    fn slots_that_nobody_needs_are_not_added() {
        let now = clock::now();
        let mut limit = BindLimit::new(100, now);
        (0..1_000).for_each(|_| limit.ended(Ended::Answered, MS, false, now));
        assert_eq!(limit.get(), FIRST);
    }
}
