//! Lane: calls that compete for the same thing.

use std::time::Duration;

/// What a call is carried out by, and so what it competes for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Asks for health, or for a method that is not there: never refused, for whoever asks would think that the server is gone.
    Probe,
    /// Watches of health, and reflection: open for as long as the client likes, and open to anybody, so their number is bounded
    /// apart from all others.
    Watch,
    /// Microseconds, where the request arrived.
    Quick,
    /// The pool of decisions.
    Decision,
    /// The pool of simulations.
    Simulation,
    /// Waits for the disk.
    Ledger,
    /// A stream: open for as long as the client likes, its messages throttled rather than refused.
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

    /// In labels.
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

    /// Whether its calls end by themselves, and so may be given an end.
    pub(crate) fn is_unary(self) -> bool {
        match self {
            Lane::Probe | Lane::Quick | Lane::Decision | Lane::Simulation | Lane::Ledger => true,
            Lane::Watch | Lane::Stream => false,
        }
    }

    /// Whether its workers need a core as long as they work.
    pub(crate) fn is_computation(self) -> bool {
        match self {
            Lane::Quick | Lane::Decision | Lane::Simulation => true,
            Lane::Probe | Lane::Watch | Lane::Ledger | Lane::Stream => false,
        }
    }

    /// How long its calls may be expected to wait, of a limit that is meant for decisions: a simulation takes a second rather
    /// than a millisecond, and so may a disk.
    pub(crate) fn wait_limit(self, limit: Duration) -> Duration {
        match self {
            Lane::Simulation | Lane::Ledger => limit.saturating_mul(10),
            Lane::Probe | Lane::Watch | Lane::Quick | Lane::Decision | Lane::Stream => limit,
        }
    }

    /// How long its calls may take, of a limit that is meant for decisions.
    pub(crate) fn call_limit(self, limit: Duration) -> Duration {
        if self == Lane::Simulation { limit.saturating_mul(5) } else { limit }
    }
}
