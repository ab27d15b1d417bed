//! The ledger: whether writes to it succeed, how large it is, and the part of this server among those that share it.

use std::time::Duration;

use metrics::{Counter, Gauge, Unit};

use super::description::Description;
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

/// Metrics of one server's ledger. Clones count together.
#[derive(Clone)]
pub struct LedgerCounts {
    available: Gauge,
    bytes: Gauge,
    commits: Gauge,
    staleness: Gauge,
    answered: Counter,
    unanswered: Counter,
}

impl LedgerCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&AVAILABLE, &BYTES, &COMMITS, &STALENESS, &FORWARDED];

    pub(super) fn new(registry: &Registry) -> LedgerCounts {
        let counts = LedgerCounts {
            available: registry.gauge(&AVAILABLE, &[]),
            bytes: registry.gauge(&BYTES, &[]),
            commits: registry.gauge(&COMMITS, &[]),
            staleness: registry.gauge(&STALENESS, &[]),
            answered: registry.counter(&FORWARDED, &["answered"]),
            unanswered: registry.counter(&FORWARDED, &["unanswered"]),
        };
        counts.set_available(true);
        counts.set_replica(true, Duration::ZERO);
        counts
    }

    /// Sets whether the ledger can be written.
    pub fn set_available(&self, is_available: bool) {
        self.available.set(f64::from(u8::from(is_available)));
    }

    /// Sets whether this server decides for all that share the ledger, and for how long its view has not been certain.
    pub fn set_replica(&self, commits: bool, staleness: Duration) {
        self.commits.set(f64::from(u8::from(commits)));
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
