//! What Berth says of itself: log lines, metrics, traces.
//!
//! Metrics are counted in groups. A group is a file: the rows of the table that are its own (`DESCRIPTIONS`), and a type whose
//! `new` takes its counters from the registry, so that whoever counts holds a counter instead of looking it up. To add one: a
//! file, its `mod` line, a line in `groups!`, and its rows in `docs/metrics.md`, which a test holds against the table.
//!
//! Each server has its own registry: two of them in one process, as in tests, do not count together.

mod description;
mod histogram;
mod registry;
pub(crate) mod text;
pub(crate) mod protobuf;

mod auth_counts;
mod admission_counts;
mod call_counts;
mod cluster_counts;
mod connection_counts;
mod expander_counts;
mod extender_counts;
mod feed_counts;
mod ledger_counts;
mod placement_counts;
mod preemption_counts;
mod process_counts;
mod schedule_counts;
mod session_counts;

mod log;
pub(crate) mod trace;

use std::time::Duration;

use berth_engine::{Decision, EngineError, PostFilter, Snapshot};

pub use admission_counts::{AdmissionCounts, LaneCounts};
pub use auth_counts::{AuthCounts, AuthOutcome, MeansCounts};
pub(crate) use call_counts::code_name;
pub use call_counts::{CallCounts, MethodCounts};
pub use cluster_counts::ClusterCounts;
pub use connection_counts::ConnectionCounts;
pub(crate) use connection_counts::{PortCounts, Refusal};
use description::Description;
pub use expander_counts::{ExpanderCounts, ExpanderOutcome, StrategyCounts};
pub use extender_counts::{ExtenderCounts, ExtenderOutcome, ExtenderVerb};
pub use feed_counts::{FeedCounts, FeedEvent, KindCounts};
pub use histogram::Histogram;
pub use ledger_counts::LedgerCounts;
pub use log::{LogFormat, log_failure, start_logging};
pub use placement_counts::{PlaceMethod, PlacementCounts};
pub use preemption_counts::PreemptionCounts;
pub use process_counts::ProcessCounts;
use registry::Registry;
pub use registry::{Counter, Gauge};
pub use schedule_counts::{
    AttemptResult, BindOutcome, ExtensionPoint, PendingPods, ScheduleCounts,
};
pub use session_counts::{SessionCounts, SessionEnd};
pub use trace::{TraceContext, TracingError, TracingOptions};

macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $group:ident: $Counts:ty,)+) => {
        /// One server's metrics.
        pub struct Metrics {
            registry: Registry,
            $($group: $Counts,)+
        }

        impl Metrics {
            /// A fresh set, all at zero.
            #[must_use]
            pub fn new() -> Metrics {
                let registry = Registry::new(TABLE);
                Metrics { $($group: <$Counts>::new(&registry),)+ registry }
            }

            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $group(&self) -> &$Counts {
                    &self.$group
                }
            )+
        }

        /// Every metric, by group.
        const TABLE: &[&[&Description]] = &[$(<$Counts>::DESCRIPTIONS),+];
    };
}

groups! {
    /// Placements that were asked for.
    placements: PlacementCounts,
    /// Runs of PostFilter.
    preemptions: PreemptionCounts,
    /// Finished gRPC calls.
    calls: CallCounts,
    /// What is let in and what is refused for load.
    admission: AdmissionCounts,
    /// Connections and the certificate that secures them.
    connections: ConnectionCounts,
    /// Callers.
    auth: AuthCounts,
    /// What-if sessions.
    sessions: SessionCounts,
    /// What the cluster holds, and what feeds tell.
    cluster: ClusterCounts,
    /// The API-server feed.
    feed: FeedCounts,
    /// The ledger.
    ledger: LedgerCounts,
    /// `berth schedule`.
    schedule: ScheduleCounts,
    /// Extender calls.
    extender: ExtenderCounts,
    /// The expander's strategies.
    expander: ExpanderCounts,
    /// This process.
    process: ProcessCounts,
}

impl Metrics {
    /// Counts one pod's outcome; what is assumed in a session `is_hypothetical`.
    pub fn count_decision(&self, outcome: Result<&Decision, &EngineError>, is_hypothetical: bool) {
        self.placements.count(outcome, is_hypothetical);
    }

    /// Counts one run of PostFilter.
    pub fn count_preemption(&self, post_filter: &PostFilter) {
        self.preemptions.count(post_filter);
    }

    /// Counts pods that never reached the engine.
    pub fn count_refused(&self, n_pods: usize) {
        self.placements.count_refused(n_pods);
    }

    /// Notes the engine time of one request.
    pub fn record_place_duration(&self, method: PlaceMethod, duration: Duration) {
        self.placements.record_duration(method, duration);
    }

    /// Counts the changes of one batch.
    pub fn count_deltas(&self, n_applied: usize, n_rejected: usize) {
        self.cluster.count_deltas(n_applied, n_rejected);
    }

    /// Everything in Prometheus' text format, with the gauges as of `snapshot`.
    #[must_use]
    pub fn render(
        &self,
        snapshot: &Snapshot,
        n_shapes: usize,
        staleness: Option<Duration>,
    ) -> String {
        self.look(snapshot, n_shapes, staleness);
        text::write(&self.registry.gather())
    }

    /// The same as `io.prometheus.client.MetricFamily` messages, each behind its length.
    #[must_use]
    pub fn render_protobuf(
        &self,
        snapshot: &Snapshot,
        n_shapes: usize,
        staleness: Option<Duration>,
    ) -> Vec<u8> {
        self.look(snapshot, n_shapes, staleness);
        protobuf::write(&self.registry.gather())
    }

    /// Sets what is not counted as it happens.
    fn look(&self, snapshot: &Snapshot, n_shapes: usize, staleness: Option<Duration>) {
        self.cluster.set(snapshot, n_shapes, staleness);
        self.process.look();
        self.connections.look();
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

#[cfg(test)]
mod tests;
