//! Back-off of restarts: how long each one waits (L-RESTART-15 to L-RESTART-19).

use crate::lifecycle::reading::Seconds;
use crate::model::ModelError;

/// The delay of the second restart, in seconds (L-RESTART-15).
pub(crate) const DEFAULT_BASE: Seconds = 10;
/// The longest delay, in seconds; also the longest that may be configured (L-RESTART-15, L-RESTART-18).
pub(crate) const DEFAULT_CAP: Seconds = 300;
/// A history is dropped if the latest run finished more than this many seconds after the last restart (L-RESTART-16).
pub(crate) const FORGOTTEN_AFTER: Seconds = 600;

/// Reason of a container that waits for its back-off (L-RESTART-19).
pub(crate) const CRASH_LOOP_BACK_OFF: &str = "CrashLoopBackOff";

/// The shortest and the longest delay, apart from zero, in seconds: 1 ≤ base ≤ cap ≤ 300.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackOffLimits {
    base: Seconds,
    cap: Seconds,
}

/// Back-off history of a container between two exits. The default is that of a container that was never restarted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackOffHistory {
    /// Delay before the latest restart, and the time of that restart.
    pub(crate) latest: Option<(Seconds, Seconds)>,
}

/// The earliest restart of a container.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Earliest time of the restart.
    pub(crate) not_before: Seconds,
    /// Seconds from the finish of the latest run; 0 means at once.
    pub(crate) delay: Seconds,
}

impl Default for BackOffLimits {
    fn default() -> BackOffLimits {
        BackOffLimits { base: DEFAULT_BASE, cap: DEFAULT_CAP }
    }
}

impl BackOffLimits {
    /// Limits from a configuration, with defaults for absent values. A cap below the base replaces the base
    /// (L-RESTART-18).
    ///
    /// # Errors
    /// [`ModelError`] at `maxSeconds` for a cap outside 1 to 300, at `baseSeconds` for a base below 1.
    pub(crate) fn new(
        base: Option<Seconds>,
        cap: Option<Seconds>,
    ) -> Result<BackOffLimits, ModelError> {
        let (base, cap) = (base.unwrap_or(DEFAULT_BASE), cap.unwrap_or(DEFAULT_CAP));
        if !(1..=DEFAULT_CAP).contains(&cap) {
            let reason = format!("`{cap}` is outside 1 to {DEFAULT_CAP} seconds");
            return Err(ModelError::new("maxSeconds", reason));
        }
        if base < 1 {
            return Err(ModelError::new("baseSeconds", format!("`{base}` is below 1 second")));
        }
        Ok(BackOffLimits { base: base.min(cap), cap })
    }

    /// The longest delay, in seconds.
    pub(crate) fn cap(self) -> Seconds {
        self.cap
    }

    /// The delay that follows one of `delay` seconds: 0 is followed by the base, then it doubles up to the cap
    /// (L-RESTART-15).
    pub(crate) fn after(self, delay: Seconds) -> Seconds {
        delay.saturating_mul(2).clamp(self.base, self.cap)
    }

    /// The delay of the `n`-th restart of a history that was never dropped, counted from 0 (L-RESTART-15).
    pub(crate) fn of_restart(self, n: u32) -> Seconds {
        // Ten doublings reach any cap from any base.
        (0..n.min(10)).fold(0, |delay, _| self.after(delay))
    }

    /// The earliest restart of a container whose latest run finished at `finished`.
    pub(crate) fn hold(self, history: BackOffHistory, finished: Seconds) -> Hold {
        let delay = match history.latest {
            Some((delay, restarted)) if !is_forgotten(restarted, finished) => self.after(delay),
            _ => 0,
        };
        Hold { not_before: finished.saturating_add(delay), delay }
    }
}

impl BackOffHistory {
    /// The history after a restart that waited `delay` seconds and happened at `restarted`.
    pub(crate) fn restarted(delay: Seconds, restarted: Seconds) -> BackOffHistory {
        BackOffHistory { latest: Some((delay, restarted)) }
    }
}

impl Hold {
    /// Reason of the container's waiting state (L-RESTART-19).
    pub(crate) fn reason(self) -> Option<&'static str> {
        (self.delay > 0).then_some(CRASH_LOOP_BACK_OFF)
    }
}

/// Whether a run was long enough to drop the history before it; exactly 600 seconds are not (L-RESTART-16).
pub(crate) fn is_forgotten(restarted: Seconds, finished: Seconds) -> bool {
    finished.saturating_sub(restarted) > FORGOTTEN_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-RESTART-15, L-RESTART-18: every pair of limits, against repeated doubling.
    #[test]
    fn delays_double_up_to_the_cap() {
        for cap in 1..=DEFAULT_CAP {
            for base in [1, 2, 10, 299, 300, i64::MAX] {
                let limits = BackOffLimits::new(Some(base), Some(cap)).unwrap();
                let mut delay = base.min(cap);
                assert_eq!(limits.of_restart(0), 0);
                for n in 1..20 {
                    assert_eq!(limits.of_restart(n), delay, "{base} {cap} {n}");
                    delay = (delay * 2).min(cap);
                }
                assert_eq!(limits.of_restart(u32::MAX), cap);
            }
        }
    }

    /// L-RESTART-15, L-RESTART-21.
    #[test]
    fn defaults() {
        let delays: Vec<i64> = (0..8).map(|n| BackOffLimits::default().of_restart(n)).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    /// L-RESTART-16: exactly 600 s keep the history.
    #[test]
    fn dropped_histories() {
        let limits = BackOffLimits::default();
        let history = BackOffHistory::restarted(40, 1000);
        assert_eq!(limits.hold(history, 1600), Hold { not_before: 1680, delay: 80 });
        assert_eq!(limits.hold(history, 1601), Hold { not_before: 1601, delay: 0 });
        assert_eq!(limits.hold(history, 1601).reason(), None);
        assert_eq!(limits.hold(BackOffHistory::default(), 7), Hold { not_before: 7, delay: 0 });
    }

    #[test]
    fn times_saturate() {
        let limits = BackOffLimits::default();
        let hold = limits.hold(BackOffHistory::restarted(300, i64::MAX), i64::MAX);
        assert_eq!(hold, Hold { not_before: i64::MAX, delay: 300 });
        let hold = limits.hold(BackOffHistory::restarted(300, i64::MIN), i64::MAX);
        assert_eq!(hold.delay, 0);
    }
}
