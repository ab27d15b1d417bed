//! The ledger: whether writes to it succeed, how large it is, and the part of this server among those that share it.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

use super::description::{DURATION_BUCKETS, Description};
use super::{Registry, count};

const AVAILABLE: Description = Description::gauge(
    "berth_ledger_available",
    &[],
    "1 while writes to the ledger succeed; 0 from a failed write until the next one that succeeds.",
);

const BYTES: Description = Description::gauge(
    "berth_ledger_bytes",
    &[],
    "Bytes that the ledger takes, of its file or in memory. From 1 GiB no record is added.",
)
.measured_in(Unit::Bytes);

const COMMITTED: Description = Description::counter(
    "berth_ledger_commits_total",
    &["outcome"],
    "Transactions of the ledger that this server has tried, by outcome: committed, conflict (a record has changed meanwhile), other_term (another replica decides), full, failed.",
);

const COMMIT_DURATION: Description = Description::seconds(
    "berth_ledger_commit_duration_seconds",
    &[],
    &DURATION_BUCKETS,
    "Time of each transaction that was committed.",
);

const TERM: Description = Description::gauge(
    "berth_replica_term",
    &[],
    "The term in which this server decides for all replicas, which grows with each change of the one that does; 0 while another one does, or none.",
);

const COMMITS: Description = Description::gauge(
    "berth_replica_commits",
    &[],
    "1 while this server decides what is assumed and granted; 0 while another replica does, or none.",
);

const STALENESS: Description = Description::gauge(
    "berth_replica_staleness_seconds",
    &[],
    "Seconds since this server knew for certain all reservations of the replicas that share its ledger; 0 where none do.",
)
.measured_in(Unit::Seconds);

const FORWARDED: Description = Description::counter(
    "berth_calls_forwarded_total",
    &["outcome"],
    "Calls that were sent on to another replica, by outcome: answered, unanswered.",
);

/// What became of a transaction. It labels the counter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It was committed.
    Committed,
    /// A record has changed since it was read.
    Conflict,
    /// Another replica decides.
    OtherTerm,
    /// There is no room, or it is too large.
    Full,
    /// The ledger does not work, or it is not known whether it has.
    Failed,
}

impl CommitOutcome {
    const ALL: [CommitOutcome; 5] = [
        CommitOutcome::Committed,
        CommitOutcome::Conflict,
        CommitOutcome::OtherTerm,
        CommitOutcome::Full,
        CommitOutcome::Failed,
    ];

    fn name(self) -> &'static str {
        match self {
            CommitOutcome::Committed => "committed",
            CommitOutcome::Conflict => "conflict",
            CommitOutcome::OtherTerm => "other_term",
            CommitOutcome::Full => "full",
            CommitOutcome::Failed => "failed",
        }
    }
}

/// Metrics of one server's ledger. Clones count together.
#[derive(Clone)]
pub struct LedgerCounts {
    available: Gauge,
    bytes: Gauge,
    committed: [Counter; CommitOutcome::ALL.len()],
    commit_duration: Histogram,
    term: Gauge,
    commits: Gauge,
    staleness: Gauge,
    answered: Counter,
    unanswered: Counter,
}

impl LedgerCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[
        &AVAILABLE,
        &BYTES,
        &COMMITTED,
        &COMMIT_DURATION,
        &COMMITS,
        &TERM,
        &STALENESS,
        &FORWARDED,
    ];

    pub(super) fn new(registry: &Registry) -> LedgerCounts {
        let counts = LedgerCounts {
            available: registry.gauge(&AVAILABLE, &[]),
            bytes: registry.gauge(&BYTES, &[]),
            committed: CommitOutcome::ALL.map(|it| registry.counter(&COMMITTED, &[it.name()])),
            commit_duration: registry.histogram(&COMMIT_DURATION, &[]),
            term: registry.gauge(&TERM, &[]),
            commits: registry.gauge(&COMMITS, &[]),
            staleness: registry.gauge(&STALENESS, &[]),
            answered: registry.counter(&FORWARDED, &["answered"]),
            unanswered: registry.counter(&FORWARDED, &["unanswered"]),
        };
        counts.set_available(true);
        counts.set_replica(true, 0, Duration::ZERO);
        counts
    }

    /// Sets whether the ledger can be written.
    pub fn set_available(&self, is_available: bool) {
        self.available.set(f64::from(u8::from(is_available)));
    }

    /// Counts a transaction; its time counts if it was committed.
    pub fn record_commit(&self, outcome: CommitOutcome, elapsed: Duration) {
        self.committed[outcome as usize].increment(1);
        if outcome == CommitOutcome::Committed {
            self.commit_duration.record(elapsed);
        }
    }

    /// Sets whether this server decides for all that share the ledger, in which term, and for how long its view has not
    /// been certain.
    pub fn set_replica(&self, commits: bool, term: i64, staleness: Duration) {
        self.commits.set(f64::from(u8::from(commits)));
        self.term.set(count(usize::try_from(term).unwrap_or_default()));
        self.staleness.set(staleness.as_secs_f64());
    }

    /// Counts a call that was sent on to another replica.
    pub fn count_forwarded(&self, is_answered: bool) {
        match is_answered {
            true => self.answered.increment(1),
            false => self.unanswered.increment(1),
        }
    }

    /// Sets the number of bytes that the ledger takes.
    pub fn set_bytes(&self, n_bytes: u64) {
        self.bytes.set(count(usize::try_from(n_bytes).unwrap_or(usize::MAX)));
    }
}
