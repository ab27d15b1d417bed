//! LogLimit: limits log lines that strangers can cause to a rate that a log can take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of lines in a window.
const MAX_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Limits the number of lines in a window, and counts the suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    n_lines: u32,
    n_dropped: u64,
}

impl LogLimit {
    /// Whether a line may be written at `now`; if so, how many were suppressed since the last one.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        // The state stays valid even if a thread panicked while holding the lock.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same_window =
            state.since.is_some_and(|since| now.saturating_duration_since(since) < WINDOW);
        if !is_same_window {
            (state.since, state.n_lines) = (Some(now), 0);
        }
        if state.n_lines == MAX_LINES {
            state.n_dropped += 1;
            return None;
        }
        state.n_lines += 1;
        Some(std::mem::take(&mut state.n_dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn lines_beyond_the_window_are_counted() {
        let (limit, start) = (LogLimit::default(), clock::now());
        let admitted: Vec<_> = (0..25).filter_map(|_| limit.admit(start)).collect();
        assert_eq!(admitted, [0; 10]);
        assert_eq!(limit.admit(start + WINDOW / 2), None);
        assert_eq!(limit.admit(start + WINDOW), Some(16));
        assert_eq!(limit.admit(start + WINDOW), Some(0));
    }
}
