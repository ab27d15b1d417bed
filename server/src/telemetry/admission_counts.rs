//! What is let in and what is refused for load, by lane; how long calls waited; whose requests came again.

use std::time::Duration;

use super::description::{DURATION_BUCKETS, Description};
use super::{Counter, Gauge, Histogram, Registry};
use crate::admission::Lane;

const CALLS: Description = Description::counter(
    "berth_admission_total",
    &["lane", "outcome"],
    "Calls that arrived at a lane, and those that were refused for load, by lane and outcome: arrived, refused.",
);
const IN_FLIGHT: Description = Description::gauge(
    "berth_admission_in_flight",
    &["lane"],
    "Calls from their first header to the last byte of their answers, by lane.",
);
const WAITING: Description = Description::gauge(
    "berth_admission_waiting",
    &["lane"],
    "Calls that wait for a worker of their lane, by lane.",
);
const WORKERS: Description = Description::gauge(
    "berth_admission_workers",
    &["lane"],
    "Calls that may be worked on at a time, by lane; fewer while there is too much to do and too few cores to do it on, 0 where \
     they have no workers.",
);
const QUEUE: Description = Description::seconds(
    "berth_admission_queue_seconds",
    &["lane"],
    &DURATION_BUCKETS,
    "How long calls waited before they were begun, by lane; of the quick lane one call in eight.",
);
const SLOW_READERS: Description = Description::counter(
    "berth_slow_readers_total",
    &[],
    "Connections closed because an answer waited too long for its reader.",
);
const REPLAYED: Description = Description::counter(
    "berth_replayed_answers_total",
    &[],
    "Calls that were given the answer remembered for their request id.",
);

/// One server's doors, counted. Clones count together.
#[derive(Clone)]
pub struct AdmissionCounts {
    lanes: [LaneCounts; Lane::ALL.len()],
    slow_readers: Counter,
    replayed: Counter,
}

#[derive(Clone)]
struct LaneCounts {
    arrived: Counter,
    refused: Counter,
    in_flight: Gauge,
    waiting: Gauge,
    workers: Gauge,
    queue: Histogram,
}

impl AdmissionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&CALLS, &IN_FLIGHT, &WAITING, &WORKERS, &QUEUE, &SLOW_READERS, &REPLAYED];

    pub(super) fn new(registry: &Registry) -> AdmissionCounts {
        let lanes = Lane::ALL.map(|lane| {
            let name = lane.name();
            LaneCounts {
                arrived: registry.counter(&CALLS, &[name, "arrived"]),
                refused: registry.counter(&CALLS, &[name, "refused"]),
                in_flight: registry.gauge(&IN_FLIGHT, &[name]),
                waiting: registry.gauge(&WAITING, &[name]),
                workers: registry.gauge(&WORKERS, &[name]),
                queue: registry.histogram(&QUEUE, &[name]),
            }
        });
        AdmissionCounts {
            lanes,
            slow_readers: registry.counter(&SLOW_READERS, &[]),
            replayed: registry.counter(&REPLAYED, &[]),
        }
    }

    /// Counts a call that was refused for load.
    pub(crate) fn count_refused(&self, lane: Lane) {
        self.lanes[lane as usize].refused.increment(1);
    }

    /// Notes how long a call waited before it was begun, or gave up.
    pub(crate) fn record_wait(&self, lane: Lane, waited: Duration) {
        self.lanes[lane as usize].queue.record_duration(waited);
    }

    /// Counts a connection that was closed because its client does not read.
    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.increment(1);
    }

    /// Counts an answer that was given again.
    pub(crate) fn count_replayed(&self) {
        self.replayed.increment(1);
    }

    /// Notes what is counted elsewhere, where each call writes as little as possible.
    pub(crate) fn publish(&self, lane: Lane, n_arrived: u64, n_in_flight: usize) {
        let counts = &self.lanes[lane as usize];
        counts.arrived.raise_to(n_arrived);
        counts.in_flight.set_count(n_in_flight);
    }

    /// The same of its workers.
    pub(crate) fn publish_workers(&self, lane: Lane, n_waiting: usize, n_open: usize) {
        let counts = &self.lanes[lane as usize];
        counts.waiting.set_count(n_waiting);
        counts.workers.set_count(n_open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn doors_are_counted_by_lane() {
        let metrics = Metrics::new();
        let counts = metrics.admission();
        counts.count_refused(Lane::Decision);
        counts.record_wait(Lane::Ledger, Duration::from_micros(3));
        counts.publish(Lane::Decision, 7, 2);
        counts.publish_workers(Lane::Decision, 1, 4);
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for expected in [
            "berth_admission_total{lane=\"decision\",outcome=\"arrived\"} 7",
            "berth_admission_total{lane=\"decision\",outcome=\"refused\"} 1",
            "berth_admission_in_flight{lane=\"decision\"} 2",
            "berth_admission_waiting{lane=\"decision\"} 1",
            "berth_admission_workers{lane=\"decision\"} 4",
            "berth_admission_workers{lane=\"quick\"} 0",
            "berth_admission_queue_seconds_bucket{lane=\"ledger\",le=\"0.000005\"} 1",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
