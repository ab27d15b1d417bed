//! Publisher: copies the counts of the queue to the metrics.

use std::collections::BTreeMap;

use berth_engine::Plugin;
use metrics::{Counter, Gauge};

use super::queue::{Cause, Counts, Destination, Tally};
use crate::telemetry::{PendingPods, ScheduleCounts, count};

/// Handles of the metrics that are set after every batch. Each is created when it first counts.
pub(super) struct Publisher {
    incoming: [[Option<Counter>; Cause::N]; Destination::ALL.len()],
    /// Pods that a plugin helped to reject, by profile.
    unschedulable: BTreeMap<Box<str>, [Option<Gauge>; Plugin::ALL.len()]>,
}

impl Publisher {
    /// A publisher without handles.
    pub(super) fn new() -> Publisher {
        let incoming = Destination::ALL.map(|_| [const { None }; Cause::N]);
        Publisher { incoming, unschedulable: BTreeMap::new() }
    }

    /// Sets the metrics of `berth schedule` to the queue's own counts.
    pub(super) fn publish(&mut self, metrics: &ScheduleCounts, counts: Counts, tally: &Tally) {
        let Counts { active, backoff, unschedulable, gated, .. } = counts;
        metrics.set_pending(PendingPods { active, backoff, unschedulable, gated });
        for (destination, cause, n) in tally.incoming() {
            self.incoming[destination as usize][cause.index()]
                .get_or_insert_with(|| metrics.incoming(destination.name(), cause.name()))
                .absolute(n);
        }
        for (profile, plugin, n) in tally.rejected() {
            if !self.unschedulable.contains_key(profile) {
                self.unschedulable.insert(profile.into(), [const { None }; Plugin::ALL.len()]);
            }
            if let Some(gauges) = self.unschedulable.get_mut(profile) {
                gauges[plugin as usize]
                    .get_or_insert_with(|| metrics.unschedulable(plugin.name(), profile))
                    .set(count(n));
            }
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
        let (metrics, mut publisher) = (Metrics::new(), Publisher::new());
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
