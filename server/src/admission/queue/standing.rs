//! Standing: whether a queue is more than a burst. Once it is, a moment without a queue proves nothing: refusing is what emptied
//! it. It is over when less is asked again than can be done.

use std::time::{Duration, Instant};

/// What is asked is compared with what can be done over this many times the limit on waiting: long enough for the two not to be
/// told apart by luck.
const WINDOW: u32 = 5;

/// Watches one queue.
#[derive(Debug)]
pub(super) struct Standing {
    limit: Duration,
    /// Since when there has always been a call that waited.
    since: Option<Instant>,
    /// There while the queue stands.
    window: Option<Window>,
}

/// Calls that came, whatever became of them.
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

impl Standing {
    /// `limit` is how long a queue may last that is a burst.
    pub(super) fn new(limit: Duration) -> Standing {
        Standing { limit, since: None, window: None }
    }

    /// A call has come, and is told whether the queue stands; `n_done_in` is how many such calls can be carried out in a time.
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

    /// Counts the call that has come.
    pub(super) fn count(&mut self) {
        if let Some(window) = &mut self.window {
            window.n_came += 1;
        }
    }

    /// A call begins to wait.
    pub(super) fn note_waiting(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// No call waits.
    pub(super) fn note_empty(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One call a millisecond can be carried out.
    fn one_a_ms(time: Duration) -> f64 {
        time.as_secs_f64() * 1e3
    }

    /// So many calls at even times within `time`; whether the queue stood for the last one.
    fn offer(standing: &mut Standing, now: &mut Instant, n: u32, time: Duration) -> bool {
        let mut stands = false;
        for _ in 0..n {
            *now += time / n;
            stands = standing.is_standing(*now, one_a_ms);
            standing.count();
        }
        stands
    }

    #[test]
    fn a_moment_without_a_queue_ends_a_burst_only() {
        let (mut standing, mut now) = (Standing::new(100 * MS), Instant::now());
        standing.note_waiting(now);
        assert!(!offer(&mut standing, &mut now, 99, 99 * MS));
        standing.note_empty();
        standing.note_waiting(now);
        assert!(!offer(&mut standing, &mut now, 99, 99 * MS));
        assert!(offer(&mut standing, &mut now, 1, MS));
        standing.note_empty();
        assert!(offer(&mut standing, &mut now, 5_000, 2_500 * MS), "twice of what can be done");
    }

    #[test]
    fn it_is_over_when_less_is_asked_than_can_be_done() {
        let (mut standing, mut now) = (Standing::new(100 * MS), Instant::now());
        standing.note_waiting(now);
        assert!(offer(&mut standing, &mut now, 1_000, 500 * MS));
        standing.note_empty();
        // The window in which both loads were is not proof yet.
        assert!(offer(&mut standing, &mut now, 30, 50 * MS));
        assert!(!offer(&mut standing, &mut now, 1_000, 1_111 * MS));
    }

    #[test]
    fn who_comes_after_a_silence_finds_no_standing_queue() {
        let (mut standing, now) = (Standing::new(100 * MS), Instant::now());
        standing.note_waiting(now);
        assert!(standing.is_standing(now + 100 * MS, one_a_ms));
        standing.note_empty();
        assert!(!standing.is_standing(now + 600 * MS, one_a_ms));
    }
}
