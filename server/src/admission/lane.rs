//! Lane: calls that compete for the same resource.

use std::time::Duration;

/// Resource that carries out a call, for which calls compete.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Health checks, and calls of unknown methods: never refused, since the caller would think that the server is
    /// gone.
    Probe,
    /// Watches of health, and reflection: open for as long as the client likes, and available to any caller, so their
    /// number has a limit of its own.
    Watch,
    /// Calls of microseconds, carried out on the thread where the request arrived.
    Quick,
    /// Calls in the pool of decisions.
    Decision,
    /// Calls in the pool of simulations.
    Simulation,
    /// Calls that wait for the disk.
    Ledger,
    /// Streams: open for as long as the client likes, their messages throttled rather than refused.
    Stream,
}

impl Lane {
    pub(crate) const ALL: [Lane; 7] = [
        Lane::Probe,
        Lane::Watch,
        Lane::Quick,
        Lane::Decision,
        Lane::Simulation,
        Lane::Ledger,
        Lane::Stream,
    ];

    /// Name in metric labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Probe => "probe",
            Lane::Watch => "watch",
            Lane::Quick => "quick",
            Lane::Decision => "decision",
            Lane::Simulation => "simulation",
            Lane::Ledger => "ledger",
            Lane::Stream => "stream",
        }
    }

    /// Whether the lane's calls end by themselves, so that they may have a time limit.
    pub(crate) fn is_unary(self) -> bool {
        match self {
            Lane::Probe | Lane::Quick | Lane::Decision | Lane::Simulation | Lane::Ledger => true,
            Lane::Watch | Lane::Stream => false,
        }
    }

    /// Whether the lane's workers need a core for as long as they work.
    pub(crate) fn is_computation(self) -> bool {
        match self {
            Lane::Quick | Lane::Decision | Lane::Simulation => true,
            Lane::Probe | Lane::Watch | Lane::Ledger | Lane::Stream => false,
        }
    }

    /// How long the lane's calls may be expected to wait, given the limit for decisions: a simulation takes a second
    /// rather than a millisecond, and so may a disk.
    pub(crate) fn wait_limit(self, limit: Duration) -> Duration {
        match self {
            Lane::Simulation | Lane::Ledger => limit.saturating_mul(10),
            Lane::Probe | Lane::Watch | Lane::Quick | Lane::Decision | Lane::Stream => limit,
        }
    }

    /// How long the lane's calls may take, given the limit for decisions.
    pub(crate) fn call_limit(self, limit: Duration) -> Duration {
        if self == Lane::Simulation { limit.saturating_mul(5) } else { limit }
    }
}
