//! What-if sessions: how many are open, how they end, and what becomes of their commits.

use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{SESSION_COMMITS, SESSIONS, SESSIONS_ENDED, counter, gauge};

/// One server's sessions, counted. Clones count together.
#[derive(Clone)]
pub struct SessionCounts {
    open: Gauge,
    closed: Counter,
    expired: Counter,
    drained: Counter,
    committed: Counter,
    commits_refused: Counter,
}

/// Why a session ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its client closed it.
    Closed,
    /// It was idle for too long.
    Expired,
    /// The server stopped.
    Drained,
}

impl SessionCounts {
    pub(super) fn new(recorder: &PrometheusRecorder) -> SessionCounts {
        let ended = |reason| counter(recorder, SESSIONS_ENDED, &[("reason", reason)]);
        let commits = |outcome| counter(recorder, SESSION_COMMITS, &[("outcome", outcome)]);
        SessionCounts {
            open: gauge(recorder, SESSIONS, &[]),
            closed: ended("closed"),
            expired: ended("expired"),
            drained: ended("drained"),
            committed: commits("committed"),
            commits_refused: commits("refused"),
        }
    }

    /// Notes how many are open.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
    pub fn set_open(&self, n_open: usize) {
        self.open.set(n_open as f64);
    }

    /// Counts sessions that ended.
    pub fn count_ended(&self, end: SessionEnd, n: usize) {
        let counter = match end {
            SessionEnd::Closed => &self.closed,
            SessionEnd::Expired => &self.expired,
            SessionEnd::Drained => &self.drained,
        };
        counter.increment(n as u64);
    }

    /// Counts a commit.
    pub fn count_commit(&self, is_committed: bool) {
        if is_committed { &self.committed } else { &self.commits_refused }.increment(1);
    }
}
