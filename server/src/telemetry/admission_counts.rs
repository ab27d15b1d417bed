//! Admission control: calls that arrived, waited and were refused for load, by lane; slow readers and replayed
//! responses.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

use super::description::{DURATION_BUCKETS, Description};
use super::{Registry, count};

const CALLS: Description = Description::counter(
    "berth_admission_total",
    &["lane", "outcome"],
    "Calls that arrived, and calls of these that were refused for load, by lane and outcome: arrived, refused.",
);
const IN_FLIGHT: Description = Description::gauge(
    "berth_admission_in_flight",
    &["lane"],
    "Calls between their first header and the last byte of their responses, by lane.",
);
const WAITING: Description = Description::gauge(
    "berth_admission_waiting",
    &["lane"],
    "Calls that wait for a worker, by lane.",
);
const WORKERS: Description = Description::gauge(
    "berth_admission_workers",
    &["lane"],
    "Calls that a lane may work on at a time, by lane; fewer while calls queue and cores are short, 0 for a lane without workers.",
);
const BUFFERED: Description = Description::gauge(
    "berth_buffered_bytes",
    &[],
    "Bytes of messages that are not yet decided, undecoded and decoded, and of answers that are not yet read.",
)
.measured_in(Unit::Bytes);
const QUEUE: Description = Description::seconds(
    "berth_admission_queue_seconds",
    &["lane"],
    &DURATION_BUCKETS,
    "Time that calls waited before work on them began, by lane; of the quick lane, one call in eight is measured.",
);
const SLOW_READERS: Description = Description::counter(
    "berth_slow_readers_total",
    &[],
    "Connections closed because the client read a response too slowly.",
);
const REPLAYED: Description = Description::counter(
    "berth_replayed_answers_total",
    &[],
    "Calls answered with the stored response to an earlier request with the same id.",
);

/// Metrics of one server's admission control. Clones count together.
#[derive(Clone)]
pub struct AdmissionCounts {
    registry: Registry,
    buffered: Gauge,
    slow_readers: Counter,
    replayed: Counter,
}

/// Metrics of one lane of admission control.
pub struct LaneCounts {
    arrived: Counter,
    refused: Counter,
    in_flight: Gauge,
    waiting: Gauge,
    workers: Gauge,
    queue: Histogram,
}

impl AdmissionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&CALLS, &IN_FLIGHT, &WAITING, &WORKERS, &BUFFERED, &QUEUE, &SLOW_READERS, &REPLAYED];

    pub(super) fn new(registry: &Registry) -> AdmissionCounts {
        AdmissionCounts {
            registry: registry.clone(),
            buffered: registry.gauge(&BUFFERED, &[]),
            slow_readers: registry.counter(&SLOW_READERS, &[]),
            replayed: registry.counter(&REPLAYED, &[]),
        }
    }

    /// Gives the metrics of the lane called `name`, all at 0 when it is new.
    pub(crate) fn lane(&self, name: &'static str) -> LaneCounts {
        let registry = &self.registry;
        LaneCounts {
            arrived: registry.counter(&CALLS, &[name, "arrived"]),
            refused: registry.counter(&CALLS, &[name, "refused"]),
            in_flight: registry.gauge(&IN_FLIGHT, &[name]),
            waiting: registry.gauge(&WAITING, &[name]),
            workers: registry.gauge(&WORKERS, &[name]),
            queue: registry.histogram(&QUEUE, &[name]),
        }
    }

    /// Publishes how many bytes messages and answers take.
    pub(crate) fn publish_buffered(&self, n_bytes: usize) {
        self.buffered.set(count(n_bytes));
    }

    /// Counts a connection that was closed because its client reads too slowly.
    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.increment(1);
    }

    /// Counts a stored response that was sent again.
    pub(crate) fn count_replayed(&self) {
        self.replayed.increment(1);
    }
}

impl LaneCounts {
    /// Counts a call that was refused for load.
    pub(crate) fn count_refused(&self) {
        self.refused.increment(1);
    }

    /// Records how long a call waited before it was begun or gave up.
    pub(crate) fn record_wait(&self, waited: Duration) {
        self.queue.record(waited);
    }

    /// Publishes numbers that admission control counts itself, so that a call writes as little as possible.
    pub(crate) fn publish(&self, n_arrived: u64, n_in_flight: usize) {
        self.arrived.absolute(n_arrived);
        self.in_flight.set(count(n_in_flight));
    }

    /// Publishes how many calls wait for a worker, and how many workers the lane may use now.
    pub(crate) fn publish_workers(&self, n_waiting: usize, n_open: usize) {
        self.waiting.set(count(n_waiting));
        self.workers.set(count(n_open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn calls_are_counted_by_lane() {
        let metrics = Metrics::new();
        let lane = |name| metrics.admission().lane(name);
        lane("decision").count_refused();
        lane("ledger").record_wait(Duration::from_micros(3));
        lane("decision").publish(7, 2);
        lane("decision").publish_workers(1, 4);
        lane("quick");
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
