//! Rate: a token bucket. A taker whose token is not there yet gets the time to wait for it.

use std::time::{Duration, Instant};

use super::options::BindRate;

/// A bucket that fills over time.
#[derive(Debug)]
pub(super) struct TokenBucket {
    rate: BindRate,
    /// Number of tokens; negative while others wait.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(rate: BindRate, now: Instant) -> TokenBucket {
        TokenBucket { rate, tokens: f64::from(rate.burst.max(1)), at: now }
    }

    /// Takes a token; returns the time after which it is available.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let full = f64::from(self.rate.burst.max(1));
        self.tokens = (self.tokens + elapsed * self.rate.per_second).min(full) - 1.0;
        self.at = self.at.max(now);
        let missing = (-self.tokens).max(0.0) / self.rate.per_second;
        Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_burst_is_free_and_then_the_rate_counts() {
        let now = clock::now();
        let mut bucket = TokenBucket::new(BindRate { per_second: 10.0, burst: 2 }, now);
        let ms: Vec<u128> = (0..4).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(ms, [0, 0, 100, 200]);
        let later = now + Duration::from_millis(300);
        assert_eq!(bucket.take(later).as_millis(), 0);
        let much_later = now + Duration::from_secs(100);
        let ms: Vec<u128> = (0..3).map(|_| bucket.take(much_later).as_millis()).collect();
        assert_eq!(ms, [0, 0, 100], "no more than the burst is kept");
    }
}
