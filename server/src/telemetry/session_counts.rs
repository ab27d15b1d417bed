//! What-if sessions: how many are open, how they end, and what becomes of their commits.

use super::description::Description;
use super::{Counter, Gauge, Registry};

const SESSIONS: Description = Description::gauge("berth_sessions", &[], "Sessions that are open.");
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

    /// Notes how many are open.
    pub fn set_open(&self, n_open: usize) {
        self.open.set_count(n_open);
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
