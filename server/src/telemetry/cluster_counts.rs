//! The cluster: changes received from feeds, and what the snapshot holds. The gauges are set at each scrape.

use std::time::Duration;

use berth_engine::Snapshot;
use metrics::{Counter, Gauge, Unit};

use super::description::Description;
use super::{Registry, count};

const DELTAS: Description = Description::counter(
    "berth_deltas_total",
    &["outcome"],
    "Objects and changes received from feeds, files included, by outcome: applied, rejected.",
);
const CACHE_SIZE: Description = Description::gauge(
    "berth_cache_size",
    &["type"],
    "Objects in the snapshot, by type: nodes, pods (on these nodes, assumed ones included), assumed_pods.",
);
const PODS: Description = Description::gauge(
    "berth_pods",
    &["state"],
    "Pods, by state: bound, assumed, pending, orphaned; an assumed pod whose node is gone counts as assumed and as orphaned.",
);
const SHAPES: Description =
    Description::gauge("berth_shapes", &[], "Distinct scheduling-relevant pod specs.");
const GENERATION: Description =
    Description::gauge("berth_generation", &[], "Generation of the published snapshot.");
const STALENESS: Description = Description::gauge(
    "berth_staleness_seconds",
    &[],
    "Time since a feed last changed or confirmed the cluster.",
)
.measured_in(Unit::Seconds);
const CONTRADICTIONS: Description = Description::gauge(
    "berth_contradictions",
    &[],
    "Contradictions between objects that feeds sent; 0 in a healthy cluster.",
);

/// Metrics of the cluster.
pub struct ClusterCounts {
    applied: Counter,
    rejected: Counter,
    nodes: Gauge,
    pods: Gauge,
    assumed_pods: Gauge,
    bound: Gauge,
    assumed: Gauge,
    pending: Gauge,
    orphaned: Gauge,
    shapes: Gauge,
    generation: Gauge,
    contradictions: Gauge,
    staleness: Gauge,
}

impl ClusterCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&CACHE_SIZE, &PODS, &SHAPES, &GENERATION, &STALENESS, &CONTRADICTIONS, &DELTAS];

    pub(super) fn new(registry: &Registry) -> ClusterCounts {
        let deltas = |outcome| registry.counter(&DELTAS, &[outcome]);
        let size = |of| registry.gauge(&CACHE_SIZE, &[of]);
        let pods = |state| registry.gauge(&PODS, &[state]);
        ClusterCounts {
            applied: deltas("applied"),
            rejected: deltas("rejected"),
            nodes: size("nodes"),
            pods: size("pods"),
            assumed_pods: size("assumed_pods"),
            bound: pods("bound"),
            assumed: pods("assumed"),
            pending: pods("pending"),
            orphaned: pods("orphaned"),
            shapes: registry.gauge(&SHAPES, &[]),
            generation: registry.gauge(&GENERATION, &[]),
            contradictions: registry.gauge(&CONTRADICTIONS, &[]),
            staleness: registry.gauge(&STALENESS, &[]),
        }
    }

    /// Counts the changes of one batch.
    pub fn count_deltas(&self, n_applied: usize, n_rejected: usize) {
        self.applied.increment(n_applied as u64);
        self.rejected.increment(n_rejected as u64);
    }

    /// Sets the gauges from numbers that the snapshot keeps.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
    pub(super) fn set(&self, snapshot: &Snapshot, n_shapes: usize, staleness: Option<Duration>) {
        let n_assumed = snapshot.n_assumed();
        self.nodes.set(count(snapshot.n_nodes()));
        self.pods.set(count(snapshot.n_pods()));
        self.assumed_pods.set(count(n_assumed));
        self.bound.set(count(snapshot.n_pods().saturating_sub(n_assumed)));
        self.assumed.set(count(n_assumed));
        self.pending.set(count(snapshot.n_pending()));
        self.orphaned.set(count(snapshot.n_orphaned()));
        self.shapes.set(count(n_shapes));
        self.generation.set(snapshot.generation().get() as f64);
        self.contradictions.set(snapshot.n_contradictions() as f64);
        self.staleness.set(staleness.map_or(f64::NAN, |staleness| staleness.as_secs_f64()));
    }
}
