//! Probes (group `probe`).
//!
//! A probe has a value in force, which changes when the same result has come often enough in a row. Liveness and startup kill
//! when theirs becomes `Failure`, and what follows is a restart decision (L-PROBE-12); readiness only takes a container out of
//! service.

mod attempt;
mod settings;
mod started_ready;
mod timeline;
mod validation;

pub use attempt::{AttemptError, AttemptResult, Mechanism, Redirect, evaluate_probe};
pub(crate) use settings::Settings;
pub use settings::default_probe;
pub use started_ready::derive_started_ready;
pub use timeline::{Outcome, probe_timeline};
pub use validation::validate_probe;

use super::word::words;

words! {
    /// What a probe is for.
    enum ProbeType {
        /// Whether the container has to be killed.
        Liveness = "liveness",
        /// Whether it is in service.
        Readiness = "readiness",
        /// Whether it has come up; the other two wait for this one (L-PROBE-10).
        Startup = "startup",
    }

    /// The value of a probe that is in force.
    enum ProbeValue {
        /// It holds.
        Success = "Success",
        /// It does not.
        Failure = "Failure",
        /// There was no result yet.
        Unknown = "Unknown",
    }
}

impl ProbeType {
    /// The value before any result (L-PROBE-11).
    #[must_use]
    pub const fn initial(self) -> ProbeValue {
        match self {
            ProbeType::Liveness => ProbeValue::Success,
            ProbeType::Readiness => ProbeValue::Failure,
            ProbeType::Startup => ProbeValue::Unknown,
        }
    }

    /// Whether a probe may need so many successes in a row: one that kills only one (L-PROBE-18).
    #[must_use]
    pub const fn may_need(self, successes: i32) -> bool {
        if self.kills() { successes == 1 } else { successes >= 0 }
    }

    /// Whether the container is killed when the value becomes `Failure` (L-PROBE-12).
    #[must_use]
    pub const fn kills(self) -> bool {
        matches!(self, ProbeType::Liveness | ProbeType::Startup)
    }
}
