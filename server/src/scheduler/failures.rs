//! Failures: the log of writes that failed. The first of a kind is a line at once; those that follow are summed up,
//! since an API server that is away fails thousands of writes a second for one cause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::words::{count, grouped};

/// Minimum time between two lines about one kind of write.
const WINDOW: Duration = Duration::from_secs(10);

/// A kind of write, as a line begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Write {
    Binding,
    Status,
    Nomination,
    Eviction,
    DeviceClaim,
}

impl Write {
    fn text(self) -> &'static str {
        match self {
            Write::Binding => "a binding is tried again",
            Write::Status => "a condition cannot be written",
            Write::Nomination => "a nomination cannot be written or cleared",
            Write::Eviction => "a victim cannot be evicted",
            Write::DeviceClaim => "a claim for devices cannot be given back",
        }
    }
}

/// Failures of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Write, Window>);

/// Time since the last line about a kind of write.
#[derive(Debug)]
struct Window {
    began: Instant,
    /// Number of failures since the line, and the text of the last.
    n_more: u64,
    last: String,
}

impl Failures {
    /// Records a failure; returns the line to log, if it is the first for a while. `text` names the pod and the reason.
    pub(super) fn note(&mut self, write: Write, text: String, now: Instant) -> Option<String> {
        match self.0.get_mut(&write) {
            Some(window) => {
                (window.n_more, window.last) = (window.n_more.saturating_add(1), text);
                None
            }
            None => {
                let window = Window { began: now, n_more: 0, last: String::new() };
                self.0.insert(write, window);
                Some(format!("{}: {text}", write.text()))
            }
        }
    }

    /// The lines about failures that were not logged, where one is due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.0.retain(|write, window| {
            let elapsed = now.saturating_duration_since(window.began);
            if elapsed < WINDOW {
                return true;
            }
            if window.n_more == 0 {
                return false;
            }
            let n_more = match window.n_more {
                1 => "once more".to_owned(),
                n => format!("{} more times", grouped(n)),
            };
            let seconds = count(elapsed.as_secs(), "second");
            let (what, last) = (write.text(), std::mem::take(&mut window.last));
            lines.push(format!("{what}: {n_more} within {seconds}, the last: {last}"));
            (window.began, window.n_more) = (now, 0);
            true
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let (mut failures, now) = (Failures::default(), clock::now());
        let text = |n: u32| format!("pod `default/p{n}`: it is away");
        let first = failures.note(Write::Binding, text(0), now);
        assert_eq!(
            first.as_deref(),
            Some("a binding is tried again: pod `default/p0`: it is away")
        );
        for n in 1..20_000 {
            assert_eq!(failures.note(Write::Binding, text(n), now), None);
        }
        assert!(failures.note(Write::Eviction, text(0), now).is_some(), "another kind of write");
        assert_eq!(failures.due(now + WINDOW / 2), Vec::<String>::new());
        assert_eq!(
            failures.due(now + WINDOW),
            [
                "a binding is tried again: 19,999 more times within 10 seconds, the last: pod `default/p19999`: it is away"
            ]
        );
        assert_eq!(failures.note(Write::Binding, text(7), now + WINDOW), None);
        assert_eq!(
            failures.due(now + 2 * WINDOW),
            [
                "a binding is tried again: once more within 10 seconds, the last: pod `default/p7`: it is away"
            ]
        );
        assert_eq!(failures.due(now + 3 * WINDOW), Vec::<String>::new());
        assert!(failures.note(Write::Binding, text(0), now + 3 * WINDOW).is_some(), "it is over");
    }
}
