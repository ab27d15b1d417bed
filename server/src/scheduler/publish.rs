//! Publisher: carries what the queue counts over to the metrics.

use std::sync::OnceLock;

use super::queue::{Cause, Counts, Destination, Tally};
use crate::telemetry::{Counter, PendingPods, ScheduleCounts};

/// Holds the counters that are set after every batch. Each is made when it first counts.
pub(super) struct Publisher {
    incoming: [[OnceLock<Counter>; Cause::N]; Destination::ALL.len()],
}

impl Default for Publisher {
    fn default() -> Publisher {
        let row = || [const { OnceLock::new() }; Cause::N];
        Publisher { incoming: Destination::ALL.map(|_| row()) }
    }
}

impl Publisher {
    /// Sets the metrics of `berth schedule` to the queue's own counts.
    pub(super) fn publish(&self, metrics: &ScheduleCounts, counts: Counts, tally: &Tally) {
        let Counts { active, backoff, unschedulable, gated, .. } = counts;
        metrics.set_pending(PendingPods { active, backoff, unschedulable, gated });
        for (destination, cause, n) in tally.incoming() {
            self.incoming[destination as usize][cause.index()]
                .get_or_init(|| metrics.incoming(destination.name(), cause.name()))
                .raise_to(n);
        }
        for (profile, plugin, n) in tally.rejected() {
            metrics.set_unschedulable(plugin.name(), profile, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;
    use berth_engine::Plugin;

    #[test]
    fn the_queue_is_published_by_its_labels() {
        let (metrics, publisher) = (Metrics::new(), Publisher::default());
        let counts = Counts { active: 3, gated: 2, ..Counts::default() };
        let tally = Tally::example("berth", Plugin::NodeResourcesFit);
        // Publishing again changes nothing.
        for _ in 0..2 {
            publisher.publish(metrics.schedule(), counts, &tally);
        }
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for line in [
            "berth_pending_pods{queue=\"active\"} 3",
            "berth_pending_pods{queue=\"backoff\"} 0",
            "berth_pending_pods{queue=\"gated\"} 2",
            "berth_queue_incoming_pods_total{queue=\"active\",event=\"UnscheduledPodAdd\"} 1",
            "berth_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"berth\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
