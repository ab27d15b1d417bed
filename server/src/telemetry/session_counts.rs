//! What-if sessions: open sessions, ended sessions by reason, and commits by outcome.

use metrics::{Counter, Gauge};

use super::description::Description;
use super::{Registry, count};

const SESSIONS: Description = Description::gauge("berth_sessions", &[], "Open sessions.");
const ENDED: Description = Description::counter(
    "berth_sessions_ended_total",
    &["reason"],
    "Sessions that ended, by reason: closed, expired, drained.",
);
const COMMITS: Description = Description::counter(
    "berth_session_commits_total",
    &["outcome"],
    "Commits of sessions, by outcome: committed, refused.",
);

/// Metrics of one server's sessions. Clones count together.
#[derive(Clone)]
pub struct SessionCounts {
    open: Gauge,
    closed: Counter,
    expired: Counter,
    drained: Counter,
    committed: Counter,
    commits_refused: Counter,
}

/// Reason why a session ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client closed the session.
    Closed,
    /// The session was idle for too long.
    Expired,
    /// The server stopped.
    Drained,
}

impl SessionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&SESSIONS, &ENDED, &COMMITS];

    pub(super) fn new(registry: &Registry) -> SessionCounts {
        let ended = |reason| registry.counter(&ENDED, &[reason]);
        let commits = |outcome| registry.counter(&COMMITS, &[outcome]);
        SessionCounts {
            open: registry.gauge(&SESSIONS, &[]),
            closed: ended("closed"),
            expired: ended("expired"),
            drained: ended("drained"),
            committed: commits("committed"),
            commits_refused: commits("refused"),
        }
    }

    /// Sets the number of open sessions.
    pub fn set_open(&self, n_open: usize) {
        self.open.set(count(n_open));
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
