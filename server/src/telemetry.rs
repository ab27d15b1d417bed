//! What Berth says of itself: log lines and metrics, every metric's name in one table.
//!
//! Each server has its own recorder, so that two of them in one process (as in tests) do not count together, and the
//! hot path holds its counters instead of looking them up.

mod call_counts;
mod log;
mod session_counts;

use std::time::Duration;

use berth_engine::{Decision, EngineError, Outcome, PostFilter, PostFilterCode, Snapshot};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

pub use call_counts::CallCounts;
pub use log::{LogFormat, start_logging};
pub use session_counts::{SessionCounts, SessionEnd};

enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const PLACEMENTS: &str = "berth_placements_total";
const PLACE_DURATION: &str = "berth_place_duration_seconds";
const PREEMPTIONS: &str = "berth_preemptions_total";
const SESSIONS: &str = "berth_sessions";
const SESSIONS_ENDED: &str = "berth_sessions_ended_total";
const SESSION_COMMITS: &str = "berth_session_commits_total";
const DELTAS: &str = "berth_deltas_total";
const NODES: &str = "berth_nodes";
const PODS: &str = "berth_pods";
const SHAPES: &str = "berth_shapes";
const GENERATION: &str = "berth_generation";
const STALENESS: &str = "berth_staleness_seconds";
const CONTRADICTIONS: &str = "berth_contradictions";
const CALLS: &str = "berth_grpc_calls_total";
const BUILD_INFO: &str = "berth_build_info";

const METRICS: [(&str, Kind, Option<Unit>, &str); 15] = [
    (
        PLACEMENTS,
        Kind::Counter,
        None,
        "Pods decided, by outcome: placed, assumed, unschedulable, gated, refused; one assumed in a session is placed.",
    ),
    (
        PLACE_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "Engine time of one request, by method.",
    ),
    (
        PREEMPTIONS,
        Kind::Counter,
        None,
        "Runs of PostFilter that were answered, by outcome: success, unschedulable, error.",
    ),
    (SESSIONS, Kind::Gauge, None, "Sessions that are open."),
    (
        SESSIONS_ENDED,
        Kind::Counter,
        None,
        "Sessions that ended, by reason: closed, expired, drained.",
    ),
    (SESSION_COMMITS, Kind::Counter, None, "Commits of sessions, by outcome: committed, refused."),
    (
        DELTAS,
        Kind::Counter,
        None,
        "Objects and changes received from feeds, files included, by outcome: applied, rejected.",
    ),
    (NODES, Kind::Gauge, None, "Nodes of the cluster."),
    (
        PODS,
        Kind::Gauge,
        None,
        "Pods, by state: bound, assumed, pending, orphaned; an assumed pod whose node is gone is assumed and orphaned.",
    ),
    (SHAPES, Kind::Gauge, None, "Distinct scheduling-relevant pod specs."),
    (GENERATION, Kind::Gauge, None, "Generation of the published snapshot."),
    (
        STALENESS,
        Kind::Gauge,
        Some(Unit::Seconds),
        "Time since a feed last changed or confirmed the cluster.",
    ),
    (CONTRADICTIONS, Kind::Gauge, None, "Contradictions that a feed sent; 0 in health."),
    (CALLS, Kind::Counter, None, "Finished gRPC calls, by method and code."),
    (BUILD_INFO, Kind::Gauge, None, "Always 1; the version of this program is in the label."),
];

/// Upper bounds in seconds: a microsecond to ten seconds, three a decade.
const DURATION_BUCKETS: [f64; 22] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// One server's counters.
pub struct Metrics {
    handle: PrometheusHandle,
    placements: Placements,
    place_durations: [Histogram; PlaceMethod::ALL.len()],
    preemptions: Preemptions,
    sessions: SessionCounts,
    deltas_applied: Counter,
    deltas_rejected: Counter,
    cluster: ClusterGauges,
    calls: CallCounts,
}

/// A method that decides; labels the time that the engine took.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PlaceMethod {
    /// `Place`
    Place,
    /// `PlaceBatch`
    PlaceBatch,
    /// `PlaceStream`
    PlaceStream,
    /// `Explain`
    Explain,
    /// `Preempt`
    Preempt,
    /// `ListCandidates`
    ListCandidates,
}

impl PlaceMethod {
    const ALL: [PlaceMethod; 6] = [
        PlaceMethod::Place,
        PlaceMethod::PlaceBatch,
        PlaceMethod::PlaceStream,
        PlaceMethod::Explain,
        PlaceMethod::Preempt,
        PlaceMethod::ListCandidates,
    ];

    fn name(self) -> &'static str {
        match self {
            PlaceMethod::Place => "Place",
            PlaceMethod::PlaceBatch => "PlaceBatch",
            PlaceMethod::PlaceStream => "PlaceStream",
            PlaceMethod::Explain => "Explain",
            PlaceMethod::Preempt => "Preempt",
            PlaceMethod::ListCandidates => "ListCandidates",
        }
    }
}

struct Placements {
    placed: Counter,
    assumed: Counter,
    unschedulable: Counter,
    gated: Counter,
    refused: Counter,
}

struct Preemptions {
    success: Counter,
    unschedulable: Counter,
    error: Counter,
}

struct ClusterGauges {
    nodes: Gauge,
    pods_bound: Gauge,
    pods_assumed: Gauge,
    pods_pending: Gauge,
    pods_orphaned: Gauge,
    shapes: Gauge,
    generation: Gauge,
    contradictions: Gauge,
    staleness: Gauge,
}

impl Metrics {
    /// A fresh set, all at zero.
    #[must_use]
    pub fn new() -> Metrics {
        let recorder = recorder();
        let placed = |outcome| counter(&recorder, PLACEMENTS, &[("outcome", outcome)]);
        let preempted = |outcome| counter(&recorder, PREEMPTIONS, &[("outcome", outcome)]);
        let pods = |state| gauge(&recorder, PODS, &[("state", state)]);
        let plain = |name| gauge(&recorder, name, &[]);
        gauge(&recorder, BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        Metrics {
            handle: recorder.handle(),
            placements: Placements {
                placed: placed("placed"),
                assumed: placed("assumed"),
                unschedulable: placed("unschedulable"),
                gated: placed("gated"),
                refused: placed("refused"),
            },
            place_durations: PlaceMethod::ALL.map(|method| {
                recorder.register_histogram(
                    &key(PLACE_DURATION, &[("method", method.name())]),
                    &METADATA,
                )
            }),
            preemptions: Preemptions {
                success: preempted("success"),
                unschedulable: preempted("unschedulable"),
                error: preempted("error"),
            },
            sessions: SessionCounts::new(&recorder),
            deltas_applied: counter(&recorder, DELTAS, &[("outcome", "applied")]),
            deltas_rejected: counter(&recorder, DELTAS, &[("outcome", "rejected")]),
            cluster: ClusterGauges {
                nodes: plain(NODES),
                pods_bound: pods("bound"),
                pods_assumed: pods("assumed"),
                pods_pending: pods("pending"),
                pods_orphaned: pods("orphaned"),
                shapes: plain(SHAPES),
                generation: plain(GENERATION),
                contradictions: plain(CONTRADICTIONS),
                staleness: plain(STALENESS),
            },
            calls: CallCounts::new(recorder),
        }
    }

    /// The counters of finished calls.
    #[must_use]
    pub fn calls(&self) -> &CallCounts {
        &self.calls
    }

    /// The counters of sessions.
    #[must_use]
    pub fn sessions(&self) -> &SessionCounts {
        &self.sessions
    }

    /// Counts one pod's outcome; what is assumed in a session `is_hypothetical`.
    pub fn count_decision(&self, outcome: Result<&Decision, &EngineError>, is_hypothetical: bool) {
        let placements = &self.placements;
        match outcome.map(|decision| &decision.outcome) {
            Ok(Outcome::Placed(placement)) if placement.assumed && !is_hypothetical => {
                placements.assumed.increment(1);
            }
            Ok(Outcome::Placed(_)) => placements.placed.increment(1),
            Ok(Outcome::Unschedulable(_)) => placements.unschedulable.increment(1),
            Ok(Outcome::Gated { .. }) => placements.gated.increment(1),
            Err(_) => placements.refused.increment(1),
        }
    }

    /// Counts one run of PostFilter.
    pub fn count_preemption(&self, post_filter: &PostFilter) {
        let preemptions = &self.preemptions;
        match post_filter.code {
            PostFilterCode::Success => preemptions.success.increment(1),
            PostFilterCode::Unschedulable => preemptions.unschedulable.increment(1),
            PostFilterCode::Error => preemptions.error.increment(1),
        }
    }

    /// Counts pods that never reached the engine.
    pub fn count_refused(&self, n_pods: usize) {
        self.placements.refused.increment(n_pods as u64);
    }

    /// Notes the engine time of one request.
    pub fn record_place_duration(&self, method: PlaceMethod, duration: Duration) {
        self.place_durations[method as usize].record(duration.as_secs_f64());
    }

    /// Counts the changes of one batch.
    pub fn count_deltas(&self, n_applied: usize, n_rejected: usize) {
        self.deltas_applied.increment(n_applied as u64);
        self.deltas_rejected.increment(n_rejected as u64);
    }

    /// Everything in Prometheus' text format, with the gauges as of `snapshot`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
    pub fn render(
        &self,
        snapshot: &Snapshot,
        n_shapes: usize,
        staleness: Option<Duration>,
    ) -> String {
        let gauges = &self.cluster;
        let n_assumed = snapshot.n_assumed();
        gauges.nodes.set(snapshot.n_nodes() as f64);
        gauges.pods_bound.set(snapshot.n_pods().saturating_sub(n_assumed) as f64);
        gauges.pods_assumed.set(n_assumed as f64);
        gauges.pods_pending.set(snapshot.n_pending() as f64);
        gauges.pods_orphaned.set(snapshot.n_orphaned() as f64);
        gauges.shapes.set(n_shapes as f64);
        gauges.generation.set(snapshot.generation().get() as f64);
        gauges.contradictions.set(snapshot.n_contradictions() as f64);
        gauges.staleness.set(staleness.map_or(f64::NAN, |staleness| staleness.as_secs_f64()));
        self.handle.render()
    }

    /// Folds recorded durations into their buckets; without it they would pile up between scrapes.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

fn recorder() -> PrometheusRecorder {
    let builder = PrometheusBuilder::new();
    // The only error is an empty list of buckets.
    let builder = builder
        .set_buckets_for_metric(Matcher::Full(PLACE_DURATION.to_owned()), &DURATION_BUCKETS)
        .unwrap_or_else(|_| PrometheusBuilder::new());
    let recorder = builder.build_recorder();
    for (name, kind, unit, help) in METRICS {
        let (name, help) = (KeyName::from_const_str(name), SharedString::const_str(help));
        match kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }
    recorder
}

fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
    let labels: Vec<Label> =
        labels.iter().map(|&(name, value)| Label::from_static_parts(name, value)).collect();
    Key::from_parts(name, labels)
}

fn counter(
    recorder: &PrometheusRecorder,
    name: &'static str,
    labels: &[(&'static str, &'static str)],
) -> Counter {
    recorder.register_counter(&key(name, labels), &METADATA)
}

fn gauge(
    recorder: &PrometheusRecorder,
    name: &'static str,
    labels: &[(&'static str, &'static str)],
) -> Gauge {
    recorder.register_gauge(&key(name, labels), &METADATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_the_table_is_rendered_with_its_help() {
        let metrics = Metrics::new();
        metrics.calls().count("/berth.v1.PlacementService/Place", 0);
        metrics.record_place_duration(PlaceMethod::Place, Duration::from_micros(3));
        metrics.run_upkeep();
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for (name, _, _, help) in METRICS {
            assert!(
                text.contains(&format!("# HELP {name} {help}")),
                "no help for {name} in\n{text}"
            );
        }
        assert!(
            text.contains(
                "berth_place_duration_seconds_bucket{method=\"Place\",le=\"0.000005\"} 1"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "berth_grpc_calls_total{method=\"/berth.v1.PlacementService/Place\",code=\"OK\"} 1"
            ),
            "{text}"
        );
    }

    #[test]
    fn outcomes_are_counted_apart() {
        let metrics = Metrics::new();
        metrics.count_decision(Err(&EngineError::Cancelled), false);
        metrics.count_refused(2);
        metrics.count_deltas(5, 1);
        let text = metrics.render(
            &berth_engine::Cluster::new().snapshot(),
            0,
            Some(Duration::from_millis(1500)),
        );
        assert!(text.contains("berth_placements_total{outcome=\"refused\"} 3"), "{text}");
        assert!(text.contains("berth_placements_total{outcome=\"placed\"} 0"), "{text}");
        assert!(text.contains("berth_deltas_total{outcome=\"applied\"} 5"), "{text}");
        assert!(text.contains("berth_deltas_total{outcome=\"rejected\"} 1"), "{text}");
        assert!(text.contains("berth_staleness_seconds 1.5"), "{text}");
        let build = format!("berth_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&build), "{text}");
    }
}
