//! Standing queue: whether a queue is more than a burst. A standing queue that is empty for a moment proves nothing,
//! since refusals emptied it. It is over when fewer calls come than can be carried out.

use std::time::{Duration, Instant};

/// Length of the window, in limits on waiting, over which arrivals are compared with capacity: long enough for chance
/// not to decide.
pub(super) const WINDOW: u32 = 5;

/// Detects whether one queue is standing.
#[derive(Debug)]
pub(super) struct StandingQueue {
    limit: Duration,
    /// Time since which a call has always been waiting.
    since: Option<Instant>,
    /// Present while the queue stands.
    window: Option<Window>,
}

/// Arrivals in a period, whether admitted or refused.
#[derive(Debug)]
struct Window {
    began: Instant,
    n_came: u64,
}

impl Window {
    fn new(began: Instant) -> Window {
        Window { began, n_came: 0 }
    }
}

impl StandingQueue {
    /// Creates a detector; `limit` is how long a burst may last.
    pub(super) fn new(limit: Duration) -> StandingQueue {
        StandingQueue { limit, since: None, window: None }
    }

    /// Updates the state when a call comes; returns whether the queue stands. `n_done_in` is how many such calls can be
    /// carried out in a time.
    pub(super) fn is_standing(
        &mut self,
        now: Instant,
        n_done_in: impl Fn(Duration) -> f64,
    ) -> bool {
        match &self.window {
            None if self.since.is_some_and(|since| now - since >= self.limit) => {
                self.window = Some(Window::new(now));
            }
            Some(window) if now - window.began >= self.limit * WINDOW => {
                #[expect(clippy::cast_precision_loss, reason = "calls of a few seconds")]
                let is_over = window.n_came as f64 <= n_done_in(now - window.began);
                self.window = (!is_over).then(|| Window::new(now));
                self.since = self.since.map(|_| now);
            }
            _ => {}
        }
        self.window.is_some()
    }

    /// Counts a call that has come.
    pub(super) fn count(&mut self) {
        if let Some(window) = &mut self.window {
            window.n_came += 1;
        }
    }

    /// Notes that a call begins to wait.
    pub(super) fn note_waiting(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Notes that no call waits.
    pub(super) fn note_empty(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Capacity of one call a millisecond.
    fn one_a_ms(time: Duration) -> f64 {
        time.as_secs_f64() * 1e3
    }

    /// Makes `n` calls at even times within `time`; returns whether the queue stood for the last one.
    fn arrive(queue: &mut StandingQueue, now: &mut Instant, n: u32, time: Duration) -> bool {
        let mut stands = false;
        for _ in 0..n {
            *now += time / n;
            stands = queue.is_standing(*now, one_a_ms);
            queue.count();
        }
        stands
    }

    #[test]
    fn a_moment_without_a_queue_ends_a_burst_only() {
        let (mut queue, mut now) = (StandingQueue::new(100 * MS), Instant::now());
        queue.note_waiting(now);
        assert!(!arrive(&mut queue, &mut now, 99, 99 * MS));
        queue.note_empty();
        queue.note_waiting(now);
        assert!(!arrive(&mut queue, &mut now, 99, 99 * MS));
        assert!(arrive(&mut queue, &mut now, 1, MS));
        queue.note_empty();
        assert!(arrive(&mut queue, &mut now, 5_000, 2_500 * MS), "twice of what can be done");
    }

    #[test]
    fn a_standing_queue_ends_when_arrivals_fall_below_capacity() {
        let (mut queue, mut now) = (StandingQueue::new(100 * MS), Instant::now());
        queue.note_waiting(now);
        assert!(arrive(&mut queue, &mut now, 1_000, 500 * MS));
        queue.note_empty();
        // A window that saw both loads proves nothing yet.
        assert!(arrive(&mut queue, &mut now, 30, 50 * MS));
        assert!(!arrive(&mut queue, &mut now, 1_000, 1_111 * MS));
    }

    #[test]
    fn a_standing_queue_ends_with_a_pause() {
        let (mut queue, now) = (StandingQueue::new(100 * MS), Instant::now());
        queue.note_waiting(now);
        assert!(queue.is_standing(now + 100 * MS, one_a_ms));
        queue.note_empty();
        assert!(!queue.is_standing(now + 600 * MS, one_a_ms));
    }
}
