//! Standing queue: whether a queue is more than a burst. One that is never empty but has no call refused is none: it is
//! callers who wait for each answer before they ask again. A standing queue that is empty for a moment proves nothing,
//! since refusals emptied it. It is over when fewer calls come than can be carried out.

use std::time::{Duration, Instant};

/// Length of the window, in limits on waiting, over which arrivals are compared with capacity: long enough for chance
/// not to decide.
pub(super) const WINDOW: u32 = 5;

/// Detects whether one queue is standing.
#[derive(Debug)]
pub(super) struct StandingQueue {
    limit: Duration,
    /// Present while a call has always been waiting, and the queue does not stand.
    filled: Option<Filled>,
    /// Present while the queue stands.
    window: Option<Window>,
}

/// A time in which a call has always been waiting, up to the limit: then the next one begins.
#[derive(Debug)]
struct Filled {
    since: Instant,
    was_refused: bool,
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
        StandingQueue { limit, filled: None, window: None }
    }

    /// Updates the state when a call comes; returns whether the queue stands. `is_waiting` is whether a call waits, and
    /// `n_done_in` how many such calls can be carried out in a time.
    pub(super) fn is_standing(
        &mut self,
        now: Instant,
        is_waiting: bool,
        n_done_in: impl Fn(Duration) -> f64,
    ) -> bool {
        match &self.window {
            None => {
                if let Some(filled) = self.filled.take_if(|it| now - it.since >= self.limit) {
                    if filled.was_refused {
                        self.window = Some(Window::new(now));
                    } else {
                        self.fill(now);
                    }
                }
            }
            Some(window) if now - window.began >= self.limit * WINDOW => {
                #[expect(clippy::cast_precision_loss, reason = "calls of a few seconds")]
                let is_over = window.n_came as f64 <= n_done_in(now - window.began);
                self.window = (!is_over).then(|| Window::new(now));
                self.filled = None;
                if is_waiting {
                    self.fill(now);
                }
            }
            Some(_) => {}
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
        if self.filled.is_none() {
            self.fill(now);
        }
    }

    /// Notes that a call may not wait, for those that do.
    pub(super) fn note_refused(&mut self) {
        if let Some(filled) = &mut self.filled {
            filled.was_refused = true;
        }
    }

    /// Notes that no call waits.
    pub(super) fn note_empty(&mut self) {
        self.filled = None;
    }

    fn fill(&mut self, since: Instant) {
        self.filled = Some(Filled { since, was_refused: false });
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

    /// A queue of 100 ms that has just refused a call.
    fn full(now: Instant) -> StandingQueue {
        let mut queue = StandingQueue::new(100 * MS);
        refill(&mut queue, now);
        queue
    }

    fn refill(queue: &mut StandingQueue, now: Instant) {
        queue.note_waiting(now);
        queue.note_refused();
    }

    /// Makes `n` calls at even times within `time`, while one waits for the one worker; returns whether the queue stood
    /// for the last one.
    fn arrive(queue: &mut StandingQueue, now: &mut Instant, n: u32, time: Duration) -> bool {
        let mut stands = false;
        for _ in 0..n {
            *now += time / n;
            stands = queue.is_standing(*now, true, one_a_ms);
            queue.count();
        }
        stands
    }

    #[test]
    fn a_moment_without_a_queue_ends_a_burst_only() {
        let mut now = Instant::now();
        let mut queue = full(now);
        assert!(!arrive(&mut queue, &mut now, 99, 99 * MS));
        queue.note_empty();
        refill(&mut queue, now);
        assert!(!arrive(&mut queue, &mut now, 99, 99 * MS));
        assert!(arrive(&mut queue, &mut now, 1, MS));
        queue.note_empty();
        assert!(arrive(&mut queue, &mut now, 5_000, 2_500 * MS), "twice of what can be done");
    }

    #[test]
    fn a_standing_queue_ends_when_arrivals_fall_below_capacity() {
        let mut now = Instant::now();
        let mut queue = full(now);
        assert!(arrive(&mut queue, &mut now, 1_000, 500 * MS));
        queue.note_empty();
        // A window that saw both loads proves nothing yet.
        assert!(arrive(&mut queue, &mut now, 30, 50 * MS));
        assert!(!arrive(&mut queue, &mut now, 1_000, 1_111 * MS));
    }

    #[test]
    fn a_standing_queue_ends_with_a_pause() {
        let now = Instant::now();
        let mut queue = full(now);
        assert!(queue.is_standing(now + 100 * MS, true, one_a_ms));
        queue.note_empty();
        assert!(!queue.is_standing(now + 600 * MS, false, one_a_ms));
    }

    #[test]
    fn a_queue_stands_once_a_call_of_a_whole_limit_was_refused() {
        let mut now = Instant::now();
        let mut queue = StandingQueue::new(100 * MS);
        queue.note_waiting(now);
        for _ in 0..50 {
            now += 100 * MS;
            assert!(!queue.is_standing(now, true, one_a_ms));
        }
        queue.note_refused();
        assert!(!queue.is_standing(now + 99 * MS, true, one_a_ms));
        assert!(queue.is_standing(now + 100 * MS, true, one_a_ms));
    }
}
