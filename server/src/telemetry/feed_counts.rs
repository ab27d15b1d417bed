//! The API-server feed: events, repeated lists, failures and refused objects, by kind. Series are made when first
//! needed, so a server with another feed has none.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Unit};

use super::Registry;
use super::description::Description;

const EVENTS: Description = Description::counter(
    "berth_feed_events_total",
    &["kind", "type"],
    "Events received from the API server, by kind and type: listed, added, modified, deleted, bookmark.",
);
const RELISTS: Description = Description::counter(
    "berth_feed_relists_total",
    &["kind", "reason"],
    "Lists that had to be repeated, by kind and reason.",
);
const ERRORS: Description = Description::counter(
    "berth_feed_errors_total",
    &["kind", "reason"],
    "Lists and watches that failed, by kind and reason.",
);
const REFUSED: Description = Description::counter(
    "berth_feed_refused_total",
    &["kind"],
    "Objects from the API server that could not be used, by kind; an object counts each time it is received.",
);
const STALENESS: Description = Description::gauge(
    "berth_feed_staleness_seconds",
    &["kind"],
    "Time since the watch of a kind was last known to be alive, by kind.",
)
.measured_in(Unit::Seconds);

/// Type of an event of a list or watch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// An object of a list, streamed or in pages.
    Listed,
    /// A watch event `ADDED`.
    Added,
    /// A watch event `MODIFIED`.
    Modified,
    /// A watch event `DELETED`.
    Deleted,
    /// A watch event `BOOKMARK`.
    Bookmark,
}

impl FeedEvent {
    const N: usize = 5;

    fn name(self) -> &'static str {
        match self {
            FeedEvent::Listed => "listed",
            FeedEvent::Added => "added",
            FeedEvent::Modified => "modified",
            FeedEvent::Deleted => "deleted",
            FeedEvent::Bookmark => "bookmark",
        }
    }
}

/// Metrics of the API-server feed.
pub struct FeedCounts {
    registry: Registry,
}

/// Metrics of one kind of object that the feed watches.
pub struct KindCounts {
    registry: Registry,
    kind: &'static str,
    /// Kept at hand, as nothing else here is counted for every object.
    events: [OnceLock<Counter>; FeedEvent::N],
}

impl FeedCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&EVENTS, &RELISTS, &ERRORS, &REFUSED, &STALENESS];

    pub(super) fn new(registry: &Registry) -> FeedCounts {
        FeedCounts { registry: registry.clone() }
    }

    /// Gives the metrics of a kind, such as `Pod`.
    #[must_use]
    pub fn kind(&self, kind: &'static str) -> KindCounts {
        KindCounts { registry: self.registry.clone(), kind, events: Default::default() }
    }
}

impl KindCounts {
    /// Counts one event.
    pub fn count_event(&self, event: FeedEvent) {
        self.events[event as usize]
            .get_or_init(|| self.registry.counter(&EVENTS, &[self.kind, event.name()]))
            .increment(1);
    }

    /// Counts a list that has to be repeated.
    pub fn count_relist(&self, reason: &'static str) {
        self.registry.counter(&RELISTS, &[self.kind, reason]).increment(1);
    }

    /// Counts a list or watch that failed.
    pub fn count_error(&self, reason: &'static str) {
        self.registry.counter(&ERRORS, &[self.kind, reason]).increment(1);
    }

    /// Counts an object that cannot be used.
    pub fn count_refused(&self) {
        self.registry.counter(&REFUSED, &[self.kind]).increment(1);
    }

    /// Sets the time since the watch of this kind was last known to be alive.
    pub fn set_staleness(&self, age: Duration) {
        self.registry.gauge(&STALENESS, &[self.kind]).set(age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn events_are_counted_by_kind() {
        let metrics = Metrics::new();
        let feed = metrics.feed();
        let (pods, nodes) = (feed.kind("Pod"), feed.kind("Node"));
        pods.count_event(FeedEvent::Bookmark);
        feed.kind("Pod").count_event(FeedEvent::Bookmark);
        nodes.count_relist("gone");
        nodes.count_error("cut");
        pods.count_refused();
        pods.set_staleness(Duration::from_millis(2_500));
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for line in [
            "berth_feed_events_total{kind=\"Pod\",type=\"bookmark\"} 2",
            "berth_feed_relists_total{kind=\"Node\",reason=\"gone\"} 1",
            "berth_feed_errors_total{kind=\"Node\",reason=\"cut\"} 1",
            "berth_feed_refused_total{kind=\"Pod\"} 1",
            "berth_feed_staleness_seconds{kind=\"Pod\"} 2.5",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
