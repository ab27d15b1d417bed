//! What Berth says of itself: log lines and metrics, every metric's name in one table.
//!
//! Each server has its own recorder, so that two of them in one process (as in tests) do not count together, and the
//! hot path holds its counters instead of looking them up.

mod call_counts;
mod extender_counts;
mod expander_counts;
mod feed_counts;
mod log;
mod schedule_counts;
mod session_counts;

use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Decision, EngineError, Outcome, PostFilter, PostFilterCode, Snapshot};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

pub use call_counts::CallCounts;
pub use expander_counts::{ExpanderCounts, ExpanderOutcome};
pub use extender_counts::{ExtenderCounts, ExtenderOutcome, ExtenderVerb};
pub use feed_counts::{FeedCounts, FeedEvent};
pub use log::{LogFormat, start_logging};
pub use schedule_counts::{AttemptResult, BindOutcome, ScheduleCounts};
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
const EXPANDER_JUDGEMENTS: &str = "berth_expander_judgements_total";
const CALLS: &str = "berth_grpc_calls_total";
const EXTENDER_REQUESTS: &str = "berth_extender_requests_total";
const EXTENDER_DURATION: &str = "berth_extender_duration_seconds";
const SCHEDULE_ATTEMPTS: &str = "berth_schedule_attempts_total";
const SCHEDULING_ATTEMPT_DURATION: &str = "berth_scheduling_attempt_duration_seconds";
const SCHEDULING_SLI_DURATION: &str = "berth_pod_scheduling_sli_duration_seconds";
const PENDING_PODS: &str = "berth_pending_pods";
const PREEMPTION_ATTEMPTS: &str = "berth_preemption_attempts_total";
const PREEMPTION_VICTIMS: &str = "berth_preemption_victims";
const BIND_OUTCOMES: &str = "berth_binds_total";
const EVENTS_DROPPED: &str = "berth_events_dropped_total";
const LEADER: &str = "berth_leader";
const FEED_EVENTS: &str = "berth_feed_events_total";
const FEED_RELISTS: &str = "berth_feed_relists_total";
const FEED_ERRORS: &str = "berth_feed_errors_total";
const FEED_REFUSED: &str = "berth_feed_refused_total";
const FEED_STALENESS: &str = "berth_feed_staleness_seconds";
const BUILD_INFO: &str = "berth_build_info";

const METRICS: [(&str, Kind, Option<Unit>, &str); 32] = [
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
    (
        EXPANDER_JUDGEMENTS,
        Kind::Counter,
        None,
        "Node groups judged for cluster-autoscaler, by strategy and outcome: narrowed, tied, undecided.",
    ),
    (CALLS, Kind::Counter, None, "Finished gRPC calls, by method and code."),
    (
        EXTENDER_REQUESTS,
        Kind::Counter,
        None,
        "Finished extender calls, by verb and outcome: answered, invalid, refused, unavailable.",
    ),
    (
        EXTENDER_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "Time from the whole body of an extender call to its whole answer, by verb.",
    ),
    (
        SCHEDULE_ATTEMPTS,
        Kind::Counter,
        None,
        "Attempts of `berth schedule`, by profile and result: scheduled, unschedulable, error.",
    ),
    (
        SCHEDULING_ATTEMPT_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "Engine time of an attempt, by profile and result; pods of one batch share theirs.",
    ),
    (
        SCHEDULING_SLI_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "From when a pod was first told of until it was bound, by its number of attempts.",
    ),
    (
        PENDING_PODS,
        Kind::Gauge,
        None,
        "Pods that wait for `berth schedule`, by queue: active, backoff, unschedulable, gated.",
    ),
    (PREEMPTION_ATTEMPTS, Kind::Counter, None, "Preemptions of `berth schedule`."),
    (PREEMPTION_VICTIMS, Kind::Histogram, None, "Victims of a preemption of `berth schedule`."),
    (
        BIND_OUTCOMES,
        Kind::Counter,
        None,
        "Bindings of `berth schedule`, by outcome: bound, bound_elsewhere, gone, refused, unknown.",
    ),
    (EVENTS_DROPPED, Kind::Counter, None, "Events that were not written, for too many waited."),
    (LEADER, Kind::Gauge, None, "1 where this instance may schedule, 0 where it stands by."),
    (
        FEED_EVENTS,
        Kind::Counter,
        None,
        "What the API server told, by kind and type: listed, added, modified, deleted, bookmark.",
    ),
    (FEED_RELISTS, Kind::Counter, None, "Kinds that had to be listed again, by kind and reason."),
    (
        FEED_ERRORS,
        Kind::Counter,
        None,
        "Lists and watches of the API server that failed, by kind and reason.",
    ),
    (
        FEED_REFUSED,
        Kind::Counter,
        None,
        "Objects from the API server that could not be taken, by kind; counted each time they are told.",
    ),
    (
        FEED_STALENESS,
        Kind::Gauge,
        Some(Unit::Seconds),
        "Time since the watch of a kind last proved alive, by kind.",
    ),
    (BUILD_INFO, Kind::Gauge, None, "Always 1; the version of this program is in the label."),
];

/// Upper bounds in seconds: a microsecond to ten seconds, three a decade.
const DURATION_BUCKETS: [f64; 22] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// Upper bounds in seconds of what pods wait: kube-scheduler's, 10 ms doubled up to an hour and a half.
const SLI_BUCKETS: [f64; 20] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84,
    327.68, 655.36, 1_310.72, 2_621.44, 5_242.88,
];

/// Upper bounds of victims, kube-scheduler's.
const VICTIM_BUCKETS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

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
    expander: ExpanderCounts,
    feed: FeedCounts,
    calls: CallCounts,
    schedule: ScheduleCounts,
    extender: ExtenderCounts,
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
    /// `SimulateScaleUp`
    SimulateScaleUp,
    /// `SimulateDrain`
    SimulateDrain,
    /// `Headroom`
    Headroom,
    /// `Consolidate`
    Consolidate,
    /// `ChooseScaleIn`
    ChooseScaleIn,
    /// `Fit`
    Fit,
}

impl PlaceMethod {
    const ALL: [PlaceMethod; 12] = [
        PlaceMethod::Place,
        PlaceMethod::PlaceBatch,
        PlaceMethod::PlaceStream,
        PlaceMethod::Explain,
        PlaceMethod::Preempt,
        PlaceMethod::ListCandidates,
        PlaceMethod::SimulateScaleUp,
        PlaceMethod::SimulateDrain,
        PlaceMethod::Headroom,
        PlaceMethod::Consolidate,
        PlaceMethod::ChooseScaleIn,
        PlaceMethod::Fit,
    ];

    fn name(self) -> &'static str {
        match self {
            PlaceMethod::Place => "Place",
            PlaceMethod::PlaceBatch => "PlaceBatch",
            PlaceMethod::PlaceStream => "PlaceStream",
            PlaceMethod::Explain => "Explain",
            PlaceMethod::Preempt => "Preempt",
            PlaceMethod::ListCandidates => "ListCandidates",
            PlaceMethod::SimulateScaleUp => "SimulateScaleUp",
            PlaceMethod::SimulateDrain => "SimulateDrain",
            PlaceMethod::Headroom => "Headroom",
            PlaceMethod::Consolidate => "Consolidate",
            PlaceMethod::ChooseScaleIn => "ChooseScaleIn",
            PlaceMethod::Fit => "Fit",
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
        let recorder = Arc::new(recorder());
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
            expander: ExpanderCounts::new(&recorder),
            extender: ExtenderCounts::new(&recorder),
            schedule: ScheduleCounts::new(recorder.clone()),
            feed: FeedCounts::new(recorder.clone()),
            calls: CallCounts::new(recorder),
        }
    }

    /// The counters of finished calls.
    #[must_use]
    pub fn calls(&self) -> &CallCounts {
        &self.calls
    }

    /// The counters of the expander's strategies.
    #[must_use]
    pub fn expander(&self) -> &ExpanderCounts {
        &self.expander
    }

    /// The counters of extender calls.
    #[must_use]
    pub fn extender(&self) -> &ExtenderCounts {
        &self.extender
    }

    /// The counters of scheduling.
    #[must_use]
    pub fn schedule(&self) -> &ScheduleCounts {
        &self.schedule
    }

    /// The counters of the API-server feed.
    #[must_use]
    pub fn feed(&self) -> &FeedCounts {
        &self.feed
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
    let bounds: [(&str, &[f64]); 5] = [
        (PLACE_DURATION, &DURATION_BUCKETS),
        (EXTENDER_DURATION, &DURATION_BUCKETS),
        (SCHEDULING_ATTEMPT_DURATION, &DURATION_BUCKETS),
        (SCHEDULING_SLI_DURATION, &SLI_BUCKETS),
        (PREEMPTION_VICTIMS, &VICTIM_BUCKETS),
    ];
    let builder = bounds.into_iter().fold(builder, |builder, (name, bounds)| {
        builder
            .set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
            .unwrap_or_else(|_| PrometheusBuilder::new())
    });
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
    use crate::feed::kube::Resource;

    #[test]
    fn every_metric_of_the_table_is_rendered_with_its_help() {
        let metrics = Metrics::new();
        metrics.calls().count("/berth.v1.PlacementService/Place", 0);
        metrics.record_place_duration(PlaceMethod::Place, Duration::from_micros(3));
        let schedule = metrics.schedule();
        schedule.count_attempt("berth", AttemptResult::Scheduled, Duration::from_micros(3));
        schedule.record_scheduled(Duration::from_millis(3), 1);
        metrics.feed().count_event(Resource::Pods, FeedEvent::Added);
        metrics.feed().count_relist(Resource::Pods, "gone");
        metrics.feed().count_error(Resource::Pods, "cut");
        metrics.feed().count_refused(Resource::Pods);
        metrics.feed().set_staleness(Resource::Pods, Duration::ZERO);
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
