//! Backoff of a failing connection: retries wait 50 ms, then twice as long each time, at most a second.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The delay before the next retry, which doubles with each failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// A backoff whose next delay is the shortest.
    pub(crate) const NEW: Self = Self { next: FIRST };

    /// The delay after another failure.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }
}

/// Delays calls over a failing connection, so that failures are not repeated in a busy loop.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    closed_until: Option<Instant>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { backoff: Backoff::NEW, closed_until: None }) }
    }

    /// Returns immediately, or after a failure once the backoff has passed.
    pub(crate) async fn pass(&self) {
        loop {
            let closed_until = self.lock().closed_until;
            match closed_until {
                Some(until) if Instant::now() < until => tokio::time::sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    /// Closes the gate for the next delay. Further calls that fail while it is closed do not lengthen the delay.
    pub(crate) fn failed(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.closed_until.is_none_or(|until| now >= until) {
            state.closed_until = Some(now + state.backoff.after_failure());
        }
    }

    /// Opens the gate and resets the backoff: the connection works.
    pub(crate) fn answered(&self) {
        let mut state = self.lock();
        if state.closed_until.is_some() {
            *state = State { backoff: Backoff::NEW, closed_until: None };
        }
    }

    /// A poisoned lock is taken all the same: each update of the state is one assignment, so the state is valid.
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
    async fn gate_delays_after_failures_and_opens_with_an_answer() {
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
        assert_eq!(waited().await, 50, "an answer resets the backoff");
    }
}
