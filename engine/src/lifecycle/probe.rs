//! Probes (group `probe`).
//!
//! A probe has a value in force, which changes once the same result has occurred often enough in a row. If the value of
//! a liveness or startup probe becomes `Failure`, the container is killed and a restart decision follows (L-PROBE-12).
//! Readiness only takes a container out of service.

mod attempt;
mod settings;
mod started_ready;
mod timeline;
mod validation;

pub use attempt::{AttemptError, AttemptResult, Mechanism, Redirect, evaluate_probe};
pub(crate) use settings::Settings;
pub use settings::{HostOrigin, default_probe};
pub use started_ready::derive_started_ready;
pub use timeline::{Outcome, probe_timeline};
pub use validation::validate_probe;

use super::word::words;

words! {
    /// Purpose of a probe.
    enum ProbeType {
        /// Finds containers that have to be killed.
        Liveness = "liveness",
        /// Finds containers that can serve.
        Readiness = "readiness",
        /// Finds out when a container has started; the other two wait for this one (L-PROBE-10).
        Startup = "startup",
    }

    /// The value of a probe that is in force.
    enum ProbeValue {
        /// The probe succeeds.
        Success = "Success",
        /// The probe fails.
        Failure = "Failure",
        /// The probe has no result yet.
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

    /// Whether a success threshold is allowed: probes that kill allow only 1 (L-PROBE-18).
    #[must_use]
    pub const fn may_need(self, successes: i32) -> bool {
        if self.kills() { successes == 1 } else { successes >= 0 }
    }

    /// Whether the container is killed once the value becomes `Failure` (L-PROBE-12).
    #[must_use]
    pub const fn kills(self) -> bool {
        matches!(self, ProbeType::Liveness | ProbeType::Startup)
    }
}
