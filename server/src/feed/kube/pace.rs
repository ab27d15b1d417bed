//! Pace: the timeouts of the feed, and its backoff.

use std::time::Duration;

use rand::TryRng as _;
use rand::rngs::SysRng;

/// Timeouts and delays of the feed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time of silence after which a stream counts as dead, and a request as unanswered.
    pub silence: Duration,
    /// Requested duration of a watch: once to twice this, at random, so that the kinds do not reconnect together.
    pub watch: Duration,
    /// Delay after the first failure; each further failure doubles it.
    pub first_wait: Duration,
    /// Maximum delay. A list that held for less than this counts as a failure.
    pub longest_wait: Duration,
    /// Interval of requests for a kind that the server does not have.
    pub absent: Duration,
    /// How long a kind may be refused until the feed counts as blind: an API server that starts refuses for a moment.
    pub refusal: Duration,
    /// How long a stream has to last to end the backoff, if nothing is heard on it.
    pub settled: Duration,
}

impl Default for Pace {
    /// Pace with 2.5 minutes of silence, watches of 5 to 10 minutes, delays of 250 ms to 30 s, absent kinds every 5
    /// minutes, 10 s of refusal, streams of 2 s.
    fn default() -> Pace {
        Pace {
            silence: Duration::from_secs(150),
            watch: Duration::from_secs(300),
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(30),
            absent: Duration::from_secs(300),
            refusal: Duration::from_secs(10),
            settled: Duration::from_secs(2),
        }
    }
}

impl Pace {
    /// Number of seconds for `timeoutSeconds`, at least 1.
    pub(super) fn watch_seconds(&self) -> u64 {
        (self.watch.mul_f64(1.0 + fraction()).as_secs()).max(1)
    }
}

/// Delays that double from failure to failure, each shortened or lengthened by up to half at random.
#[derive(Debug)]
pub(super) struct Backoff {
    pace: Pace,
    n_failures: u32,
}

impl Backoff {
    pub(super) fn new(pace: Pace) -> Backoff {
        Backoff { pace, n_failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.n_failures = 0;
    }

    /// Delay after one more failure: at least as long as the server requested.
    pub(super) fn wait(&mut self, retry_after: Option<Duration>) -> Duration {
        let doublings = self.n_failures.min(20);
        self.n_failures = self.n_failures.saturating_add(1);
        let wait = self.pace.first_wait.saturating_mul(1 << doublings).min(self.pace.longest_wait);
        wait.mul_f64(0.5 + fraction()).max(retry_after.unwrap_or_default())
    }
}

/// A random number from 0 to 1. Without randomness all delays are equal, which still works.
fn fraction() -> f64 {
    SysRng.try_next_u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over() {
        let pace = Pace::default();
        let mut backoff = Backoff::new(pace);
        let mut expected = pace.first_wait;
        for _ in 0..100 {
            let wait = backoff.wait(None);
            assert!(
                wait >= expected / 2 && wait <= expected * 3 / 2,
                "{wait:?} is not near {expected:?}"
            );
            expected = (expected * 2).min(pace.longest_wait);
        }
        backoff.reset();
        assert!(backoff.wait(None) <= pace.first_wait * 3 / 2);
        assert!(backoff.wait(Some(Duration::from_secs(40))) >= Duration::from_secs(40));
    }

    #[test]
    fn watches_do_not_end_together() {
        let pace = Pace::default();
        let seconds: Vec<u64> = (0..50).map(|_| pace.watch_seconds()).collect();
        assert!(seconds.iter().all(|seconds| (300..=600).contains(seconds)));
        assert!(seconds.iter().any(|other| *other != seconds[0]));
        assert_eq!(Pace { watch: Duration::ZERO, ..pace }.watch_seconds(), 1);
    }
}
