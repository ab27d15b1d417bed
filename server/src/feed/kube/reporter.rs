//! Reporter: logs what is wrong with the watches, a line for each cause and not for each kind or attempt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::resource::Resource;
use super::trouble::{Cause, CauseId, named};
use super::watches::Watches;
use crate::clock;

/// Interval of the looks at the watches.
const LOOK: Duration = Duration::from_secs(1);
/// Minimum time between two lines about one cause, if more kinds join it.
const AGAIN: Duration = Duration::from_secs(10);

/// Logs for as long as it is polled.
pub(super) async fn run(watches: Arc<Watches>) {
    let mut reported = Reported::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = clock::now();
        for line in reported.step(watches.causes(now), now) {
            match line {
                Line::Warning(text) => tracing::warn!("{text}"),
                Line::Over(text) => tracing::info!("{text}"),
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Warning(String),
    Over(String),
}

/// The causes that were logged and last.
#[derive(Default)]
struct Reported(BTreeMap<CauseId, Report>);

struct Report {
    at: Instant,
    kinds: Vec<Resource>,
}

impl Reported {
    /// The lines that are due for these causes.
    fn step(&mut self, causes: Vec<Cause>, now: Instant) -> Vec<Line> {
        let ended = self.end(&causes);
        let mut lines: Vec<Line> = Vec::new();
        if !ended.is_empty() {
            lines
                .push(Line::Over(format!("the API server is heard again about {}", named(&ended))));
        }
        for Cause { id, kinds, text } in causes {
            let known = self.0.get(&id);
            let is_due = known.is_none_or(|known| {
                let has_joined = kinds.iter().any(|kind| !known.kinds.contains(kind));
                has_joined && now.saturating_duration_since(known.at) >= AGAIN
            });
            if is_due {
                lines.push(Line::Warning(text));
                self.0.insert(id, Report { at: now, kinds });
            }
        }
        lines
    }

    /// Removes the causes that are over; returns the kinds that have none any more.
    fn end(&mut self, causes: &[Cause]) -> Vec<Resource> {
        let lasts = |id: &CauseId| causes.iter().any(|cause| cause.id == *id);
        let fails = |kind: &Resource| causes.iter().any(|cause| cause.kinds.contains(kind));
        let mut ended = Vec::new();
        self.0.retain(|id, report| {
            if !lasts(id) {
                ended.extend(report.kinds.iter().filter(|kind| !fails(kind)));
            }
            lasts(id)
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Failure;
    use super::super::trouble::{Trouble, causes};
    use super::*;

    fn away(now: Instant) -> Trouble {
        let failure = Failure::Unreachable("refused".to_owned());
        Trouble { n_failures: 3, ..Trouble::after(None, "watch", failure, now) }
    }

    fn of(trouble: &Trouble, kinds: &[Resource], now: Instant) -> Vec<Cause> {
        causes(kinds.iter().map(|kind| (*kind, true, trouble)), Duration::ZERO, now)
    }

    #[test]
    fn a_cause_is_logged_once_and_its_end_once() {
        let now = clock::now();
        let away = away(now);
        let mut reported = Reported::default();
        let lines = reported.step(of(&away, &Resource::ALL, now), now);
        assert!(
            matches!(&lines[..], [Line::Warning(text)] if text.contains("Node, Pod, ")),
            "{lines:?}"
        );
        assert_eq!(reported.step(of(&away, &Resource::ALL[..3], now), now + 2 * AGAIN), []);
        let lines = reported.step(Vec::new(), now);
        assert!(
            matches!(&lines[..], [Line::Over(text)] if text.starts_with("the API server is heard again about Node, Pod, ")),
            "{lines:?}"
        );
        assert_eq!(reported.step(Vec::new(), now), []);
    }

    #[test]
    fn kinds_that_join_are_told_together() {
        let now = clock::now();
        let away = away(now);
        let mut reported = Reported::default();
        assert_eq!(reported.step(of(&away, &[Resource::Nodes], now), now).len(), 1);
        assert_eq!(reported.step(of(&away, &Resource::ALL, now), now), [], "not line after line");
        assert_eq!(reported.step(of(&away, &Resource::ALL, now), now + AGAIN).len(), 1);
    }
}
