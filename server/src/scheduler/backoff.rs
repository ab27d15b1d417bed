//! Backoff: how long a pod that failed waits before its next attempt. Rule: S-Q-10.

use std::time::Duration;

/// Initial and maximum backoff of pods.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Backoff after the first failure (`podInitialBackoffSeconds`).
    pub initial: Duration,
    /// Maximum backoff (`podMaxBackoffSeconds`).
    pub max: Duration,
}

impl Default for Backoff {
    /// kube-scheduler's backoff: 1 s, at most 10 s.
    fn default() -> Backoff {
        Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// Backoff after the `n`-th consecutive failure, from 1: `initial · 2^(n−1)`, at most `max`; zero for 0.
    #[must_use]
    pub fn after(self, n: u32) -> Duration {
        let Some(doublings) = n.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_bound() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = (0..7).map(|n| backoff.after(n).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.after(u32::MAX), backoff.max);
        assert_eq!(Backoff { initial: Duration::ZERO, ..backoff }.after(9), Duration::ZERO);
    }
}
