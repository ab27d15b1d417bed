//! How often a connection that fails is tried again: after 50 ms, then twice as long each time, at most a second.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The waits between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// The shortest wait comes next.
    pub(super) const NEW: Self = Self { next: FIRST };

    /// How long to wait after another failure.
    pub(super) fn after_failure(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }
}

/// Holds calls over a failing connection back, so that failures are not repeated as fast as they are noticed.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    closed_until: Option<Instant>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State { backoff: Backoff::NEW, closed_until: None }) }
    }

    /// Returns at once unless a call has just failed; then when the connection may be tried again.
    pub(super) async fn pass(&self) {
        loop {
            let closed_until = self.lock().closed_until;
            match closed_until {
                Some(until) if Instant::now() < until => tokio::time::sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    /// Closes the gate. Calls that were on their way already and fail too do not lengthen the wait.
    pub(super) fn failed(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.closed_until.is_none_or(|until| now >= until) {
            state.closed_until = Some(now + state.backoff.after_failure());
        }
    }

    /// The connection works.
    pub(super) fn answered(&self) {
        let mut state = self.lock();
        if state.closed_until.is_some() {
            *state = State { backoff: Backoff::NEW, closed_until: None };
        }
    }

    /// The state is whole even if a thread panicked while holding it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::{Backoff, Gate};

    #[test]
    fn waits_double_up_to_a_second() {
        let mut backoff = Backoff::NEW;
        let waits: Vec<u128> = (0..7).map(|_| backoff.after_failure().as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    #[tokio::test(start_paused = true)]
    async fn gate_holds_back_after_failures_and_opens_with_an_answer() {
        let gate = Gate::new();
        let waited = async || {
            let start = Instant::now();
            gate.pass().await;
            start.elapsed().as_millis()
        };
        assert_eq!(waited().await, 0);
        // Three calls that fail together are one failure of the connection.
        (0..3).for_each(|_| gate.failed());
        assert_eq!(waited().await, 50);
        gate.failed();
        assert_eq!(waited().await, 100);
        gate.failed();
        gate.answered();
        assert_eq!(waited().await, 0);
        gate.failed();
        assert_eq!(waited().await, 50, "an answer starts the waits over");
    }
}
