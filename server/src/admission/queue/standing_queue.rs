//! Standing queue: whether a queue is more than a burst. One that is never empty, neither grows nor has a call refused, is
//! none: it is a few callers that wait for each answer before they ask again. A standing queue that is empty for a
//! moment proves nothing, since refusals emptied it. It is over when fewer calls come than can be carried out.

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
    /// Number of calls that waited when it began; `None` where the queue was empty before, so that it had to grow.
    n_waiting: Option<usize>,
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

    /// Updates the state when a call comes; returns whether the queue stands. `n_waiting` calls wait for `n_workers`, and
    /// `n_done_in` is how many such calls can be carried out in a time.
    pub(super) fn is_standing(
        &mut self,
        now: Instant,
        (n_waiting, n_workers): (usize, usize),
        n_done_in: impl Fn(Duration) -> f64,
    ) -> bool {
        match &self.window {
            None => {
                if let Some(filled) = self.filled.take_if(|it| now - it.since >= self.limit) {
                    let has_grown = |before| n_waiting > before + n_workers;
                    if filled.was_refused || filled.n_waiting.is_some_and(has_grown) {
                        self.window = Some(Window::new(now));
                    } else {
                        self.fill(now, Some(n_waiting));
                    }
                }
            }
            Some(window) if now - window.began >= self.limit * WINDOW => {
                #[expect(clippy::cast_precision_loss, reason = "calls of a few seconds")]
                let is_over = window.n_came as f64 <= n_done_in(now - window.began);
                self.window = (!is_over).then(|| Window::new(now));
                self.filled = None;
                if n_waiting > 0 {
                    self.fill(now, None);
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
            self.fill(now, None);
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

    fn fill(&mut self, since: Instant, n_waiting: Option<usize>) {
        self.filled = Some(Filled { since, n_waiting, was_refused: false });
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
            stands = queue.is_standing(*now, (1, 1), one_a_ms);
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
        assert!(queue.is_standing(now + 100 * MS, (1, 1), one_a_ms));
        queue.note_empty();
        assert!(!queue.is_standing(now + 600 * MS, (0, 1), one_a_ms));
    }

    #[test]
    fn a_queue_stands_once_it_grows() {
        let mut now = Instant::now();
        let mut queue = StandingQueue::new(100 * MS);
        queue.note_waiting(now);
        // It has to fill before it can be said to grow; and a call more for each worker is chance.
        for n_waiting in [14, 14, 16, 14, 14, 15, 17, 19] {
            now += 100 * MS;
            assert!(!queue.is_standing(now, (n_waiting, 2), one_a_ms), "{n_waiting}");
        }
        assert!(!queue.is_standing(now + 99 * MS, (99, 2), one_a_ms));
        assert!(queue.is_standing(now + 100 * MS, (22, 2), one_a_ms));
    }
}
