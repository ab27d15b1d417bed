//! Series: a repeated event is one object with a count.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::apiserver::event::Event;
use crate::clock;

/// Time without a repetition after which an event starts a new series.
const MAX_IDLE: Duration = Duration::from_secs(6 * 60);
/// Number of events that are remembered, to recognise repetitions.
const MAX_SERIES: usize = 4_096;
/// Kubernetes' limit on names, without the part that makes the name unique.
const MAX_POD_NAME_BYTES: usize = 253 - 20;

/// An event to be written.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) event: Arc<Event>,
    suffix: Arc<str>,
    /// Number of occurrences: with 1 the event is to be created, with more its series is to be updated.
    pub(super) count: i32,
    /// Time of the first occurrence, in microseconds since 1970.
    pub(super) first_micros: u64,
    pub(super) last_micros: u64,
}

impl Seen {
    /// The name of the object.
    pub(super) fn object_name(&self) -> String {
        let name = &self.event.regarding.name;
        let name = &name[..name.floor_char_boundary(MAX_POD_NAME_BYTES)];
        format!("{}.{}", name.trim_end_matches(['.', '-']), self.suffix)
    }
}

struct Series {
    seen: Seen,
    n_written: i32,
    last: Instant,
}

/// The events of the last minutes.
#[derive(Default)]
pub(super) struct SeriesTable {
    series: HashMap<Arc<Event>, Series>,
    /// Events in the order in which they began: the first are dropped when there are too many.
    order: VecDeque<Arc<Event>>,
}

impl SeriesTable {
    /// Adds an event; returns what is to be written at once: the first occurrence, and the begin of a series at the
    /// second.
    pub(super) fn see(
        &mut self,
        event: Event,
        suffix: &dyn Fn() -> String,
        now: Instant,
    ) -> Option<Seen> {
        let (now, micros) = moment(now);
        if let Some(series) = self.series.get_mut(&event)
            && now.saturating_duration_since(series.last) < MAX_IDLE
        {
            series.last = now;
            series.seen.count = series.seen.count.saturating_add(1);
            series.seen.last_micros = micros;
            if series.n_written > 1 {
                return None;
            }
            series.n_written = series.seen.count;
            return Some(series.seen.clone());
        }
        let event = Arc::new(event);
        let seen = Seen {
            event: event.clone(),
            suffix: suffix().into(),
            count: 1,
            first_micros: micros,
            last_micros: micros,
        };
        let series = Series { seen: seen.clone(), n_written: 1, last: now };
        if self.series.insert(event.clone(), series).is_none() {
            self.order.push_back(event);
        }
        while self.order.len() > MAX_SERIES {
            self.order.pop_front().and_then(|event| self.series.remove(&event));
        }
        Some(seen)
    }

    /// Series whose count is not written yet; ended ones are removed.
    pub(super) fn sweep(&mut self, now: Instant) -> Vec<Seen> {
        let due = self.rest();
        let SeriesTable { series, order } = self;
        order.retain(|event| {
            let is_kept = series
                .get(event)
                .is_some_and(|series| now.saturating_duration_since(series.last) < MAX_IDLE);
            if !is_kept {
                series.remove(event);
            }
            is_kept
        });
        due
    }

    /// Series whose count is not written yet, in the order in which they began.
    pub(super) fn rest(&mut self) -> Vec<Seen> {
        let mut due = Vec::new();
        for event in &self.order {
            if let Some(series) = self.series.get_mut(event)
                && series.n_written != series.seen.count
            {
                series.n_written = series.seen.count;
                due.push(series.seen.clone());
            }
        }
        due
    }
}

/// The instant, and the wall clock's time now in microseconds since 1970.
fn moment(now: Instant) -> (Instant, u64) {
    (now, clock::unix_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::binding::PodName;
    use crate::clock;

    fn event(name: &str) -> Event {
        let pod = PodName {
            namespace: "shop".into(),
            name: name.into(),
            uid: format!("uid of {name}").into(),
        };
        Event::failed_scheduling(&pod, "0/0 nodes are available:", &"berth".into())
    }

    #[test]
    fn a_repeated_event_is_counted_in_one_object() {
        let (mut table, now) = (SeriesTable::default(), clock::now());
        let mut see = |name: &str| {
            let seen = table.see(event(name), &|| "1".to_owned(), now);
            seen.map(|seen| (seen.object_name(), seen.count))
        };
        assert_eq!(see("web"), Some(("web.1".to_owned(), 1)));
        assert_eq!(see("api"), Some(("api.1".to_owned(), 1)));
        assert_eq!(see("web"), Some(("web.1".to_owned(), 2)));
        assert_eq!(see("web"), None, "left to the sweep");
        assert_eq!(see("web"), None);
        let due = table.sweep(now);
        assert_eq!(due.iter().map(|seen| seen.count).collect::<Vec<_>>(), [4]);
        assert!(table.sweep(now + MAX_IDLE).is_empty());
        let again = table.see(event("web"), &|| "2".to_owned(), now + MAX_IDLE);
        assert_eq!(
            again.map(|seen| (seen.object_name(), seen.count)),
            Some(("web.2".to_owned(), 1))
        );
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let (mut table, now) = (SeriesTable::default(), clock::now());
        for n in 0..MAX_SERIES + 10 {
            assert!(table.see(event(&format!("p{n}")), &|| n.to_string(), now).is_some());
        }
        assert_eq!((table.series.len(), table.order.len()), (MAX_SERIES, MAX_SERIES));
        let long = table.see(event(&"x".repeat(253)), &|| "f".repeat(16), now);
        assert!(long.is_some_and(|seen| seen.object_name().len() <= 253));
    }
}
