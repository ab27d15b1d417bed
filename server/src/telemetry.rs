//! Log lines, metrics and traces of a server.
//!
//! Metrics come in groups, a file each: the descriptions of its metrics (`DESCRIPTIONS`), and a type that holds their
//! handles ([`metrics::Counter`] and its like), so that counting needs no look-up. To add a group: a file, its `mod`
//! line, a line in `groups!`, and its rows in `docs/metrics.md`, which a test compares with the table.
//!
//! Labels come in as text. A room that counts by an enum of its own asks its group for the handles of each value once
//! ([`AdmissionCounts::lane`] is an example) and holds them by that enum.
//!
//! Each server has a registry of its own: two servers in one process, as in tests, count apart.

mod description;
mod gauge;
mod histogram;
mod registry;
pub(crate) mod text;
pub(crate) mod protobuf;

mod auth_counts;
mod admission_counts;
mod assumption_counts;
mod call_counts;
mod cluster_counts;
mod connection_counts;
mod expander_counts;
mod extender_counts;
mod feed_counts;
mod journal_counts;
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
pub use assumption_counts::{AssumptionCounts, AssumptionEnd};
pub use auth_counts::{AuthCounts, AuthOutcome, MeansCounts};
pub(crate) use call_counts::code_name;
pub use call_counts::{CallCounts, MethodCounts};
pub use cluster_counts::ClusterCounts;
pub use connection_counts::ConnectionCounts;
pub(crate) use connection_counts::{Cut, PortCounts, Refusal};
use description::Description;
pub use expander_counts::{ExpanderCounts, ExpanderOutcome, StrategyCounts};
pub use extender_counts::{ExtenderCounts, ExtenderOutcome, ExtenderVerb};
pub use feed_counts::{FeedCounts, FeedEvent, KindCounts};
pub(crate) use gauge::count;
pub use journal_counts::{JournalCounts, JournalGap};
pub use ledger_counts::{CommitOutcome, LedgerCounts};
pub(crate) use log::LogLimit;
pub use log::{LogFormat, log_failure, start_logging};
pub use placement_counts::{PlaceMethod, PlacementCounts};
pub use preemption_counts::PreemptionCounts;
pub use process_counts::ProcessCounts;
use registry::Registry;
pub use schedule_counts::{
    AttemptResult, BindOutcome, ExtensionPoint, PendingPods, ScheduleCounts,
};
pub use session_counts::{SessionCounts, SessionEnd};
pub use trace::{TraceContext, TracingError, TracingOptions};

macro_rules! groups {
    ($($(#[doc = $doc:literal])+ $group:ident: $Counts:ty,)+) => {
        /// Metrics of one server.
        pub struct Metrics {
            registry: Registry,
            $($group: $Counts,)+
        }

        impl Metrics {
            /// New metrics, all at 0.
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

        /// The descriptions of all metrics, by group.
        const TABLE: &[&[&Description]] = &[$(<$Counts>::DESCRIPTIONS),+];
    };
}

groups! {
    /// Decisions for callers over gRPC.
    placements: PlacementCounts,
    /// Preemption.
    preemptions: PreemptionCounts,
    /// gRPC calls.
    calls: CallCounts,
    /// Admission control.
    admission: AdmissionCounts,
    /// Connections and TLS.
    connections: ConnectionCounts,
    /// Authentication.
    auth: AuthCounts,
    /// Assumptions.
    assumptions: AssumptionCounts,
    /// What-if sessions.
    sessions: SessionCounts,
    /// The cluster and the changes that feeds send.
    cluster: ClusterCounts,
    /// The API-server feed.
    feed: FeedCounts,
    /// The ledger.
    ledger: LedgerCounts,
    /// The journal of decisions.
    journal: JournalCounts,
    /// `berth schedule`.
    schedule: ScheduleCounts,
    /// Extender calls.
    extender: ExtenderCounts,
    /// The expander.
    expander: ExpanderCounts,
    /// The process.
    process: ProcessCounts,
}

impl Metrics {
    /// Counts the decision about one pod. In a session the decision `is_hypothetical`.
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

    /// Records the engine's time for one request.
    pub fn record_place_duration(&self, method: PlaceMethod, duration: Duration) {
        self.placements.record_duration(method, duration);
    }

    /// Counts the changes of one batch.
    pub fn count_deltas(&self, n_applied: usize, n_rejected: usize) {
        self.cluster.count_deltas(n_applied, n_rejected);
    }

    /// Writes all metrics in Prometheus' text format, with gauges refreshed from `snapshot`.
    #[must_use]
    pub fn render(
        &self,
        snapshot: &Snapshot,
        n_shapes: usize,
        staleness: Option<Duration>,
    ) -> String {
        self.refresh(snapshot, n_shapes, staleness);
        text::write(&self.registry.gather())
    }

    /// Writes all metrics as `io.prometheus.client.MetricFamily` messages, each behind its length.
    #[must_use]
    pub fn render_protobuf(
        &self,
        snapshot: &Snapshot,
        n_shapes: usize,
        staleness: Option<Duration>,
    ) -> Vec<u8> {
        self.refresh(snapshot, n_shapes, staleness);
        protobuf::write(&self.registry.gather())
    }

    /// Refreshes the gauges that are not set between two scrapes.
    fn refresh(&self, snapshot: &Snapshot, n_shapes: usize, staleness: Option<Duration>) {
        self.cluster.set(snapshot, n_shapes, staleness);
        self.process.refresh();
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

#[cfg(test)]
mod tests;
