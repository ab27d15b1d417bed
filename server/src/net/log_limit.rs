//! LogLimit: log lines that strangers can cause, in numbers that a log can take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a window.
const MAX_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Lets through so many lines in a time, and counts the others.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    n_lines: u32,
    n_dropped: u64,
}

impl LogLimit {
    /// Whether a line may be written at `now`; if so, how many were not since the last one.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        // What it guards stays whole even if a thread panicked while holding it.
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
        let (seldom, start) = (LogLimit::default(), clock::now());
        let admitted: Vec<_> = (0..25).filter_map(|_| seldom.admit(start)).collect();
        assert_eq!(admitted, [0; 10]);
        assert_eq!(seldom.admit(start + WINDOW / 2), None);
        assert_eq!(seldom.admit(start + WINDOW), Some(16));
        assert_eq!(seldom.admit(start + WINDOW), Some(0));
    }
}
