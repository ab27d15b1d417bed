//! What the API-server feed counts: events, lists begun anew, failures and refused objects, by kind. Counters are made when first
//! needed: a server that is fed otherwise has none.

use std::sync::OnceLock;
use std::time::Duration;

use super::description::Description;
use super::{Counter, Registry};
use crate::feed::kube::Resource;

const EVENTS: Description = Description::counter(
    "berth_feed_events_total",
    &["kind", "type"],
    "What the API server told, by kind and type: listed, added, modified, deleted, bookmark.",
);
const RELISTS: Description = Description::counter(
    "berth_feed_relists_total",
    &["kind", "reason"],
    "Kinds that had to be listed again, by kind and reason.",
);
const ERRORS: Description = Description::counter(
    "berth_feed_errors_total",
    &["kind", "reason"],
    "Lists and watches of the API server that failed, by kind and reason.",
);
const REFUSED: Description = Description::counter(
    "berth_feed_refused_total",
    &["kind"],
    "Objects from the API server that could not be taken, by kind; counted each time they are told.",
);
const STALENESS: Description = Description::gauge(
    "berth_feed_staleness_seconds",
    &["kind"],
    "Time since the watch of a kind last proved alive, by kind.",
);

/// What a watch tells.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    /// An object of a list, streamed or in pages.
    Listed,
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
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

/// The counters of the API-server feed.
pub struct FeedCounts {
    registry: Registry,
    /// The only ones on a hot path.
    events: [[OnceLock<Counter>; FeedEvent::N]; Resource::N],
}

impl FeedCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&EVENTS, &RELISTS, &ERRORS, &REFUSED, &STALENESS];

    pub(super) fn new(registry: &Registry) -> FeedCounts {
        let events = Resource::ALL.map(|_| Default::default());
        FeedCounts { registry: registry.clone(), events }
    }

    /// Counts one event.
    pub fn count_event(&self, resource: Resource, event: FeedEvent) {
        self.events[resource.index()][event as usize]
            .get_or_init(|| self.registry.counter(&EVENTS, &[resource.kind(), event.name()]))
            .increment(1);
    }

    /// Counts a kind that has to be listed again.
    pub fn count_relist(&self, resource: Resource, reason: &'static str) {
        self.registry.counter(&RELISTS, &[resource.kind(), reason]).increment(1);
    }

    /// Counts a list or watch that failed.
    pub fn count_error(&self, resource: Resource, reason: &'static str) {
        self.registry.counter(&ERRORS, &[resource.kind(), reason]).increment(1);
    }

    /// Counts an object that cannot be read.
    pub fn count_refused(&self, resource: Resource) {
        self.registry.counter(&REFUSED, &[resource.kind()]).increment(1);
    }

    /// Notes how long ago a kind was heard of.
    pub fn set_staleness(&self, resource: Resource, age: Duration) {
        self.registry.gauge(&STALENESS, &[resource.kind()]).set(age.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn everything_is_counted_by_kind() {
        let metrics = Metrics::new();
        let feed = metrics.feed();
        feed.count_event(Resource::Pods, FeedEvent::Bookmark);
        feed.count_event(Resource::Pods, FeedEvent::Bookmark);
        feed.count_relist(Resource::Nodes, "gone");
        feed.count_error(Resource::Nodes, "cut");
        feed.count_refused(Resource::Pods);
        feed.set_staleness(Resource::Pods, Duration::from_millis(2_500));
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
