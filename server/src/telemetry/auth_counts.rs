//! Callers: how they prove who they are, and what became of the file that they are known by.

use super::description::Description;
use super::{Counter, Registry};

const AUTHENTICATIONS: Description = Description::counter(
    "berth_authentications_total",
    &["means", "outcome"],
    "Calls whose caller was asked for, by means (nothing, certificate, token) and outcome: success, failure; nothing succeeds as `system:anonymous`. None are where nobody is asked.",
);
const RELOADS: Description = Description::counter(
    "berth_auth_reloads_total",
    &["outcome"],
    "Token files that changed and were read again, by outcome: success, failure; a failure keeps the tokens of before.",
);

/// Metrics of one server's authentication. Clones count together.
#[derive(Clone)]
pub struct AuthCounts {
    registry: Registry,
    reloads_taken: Counter,
    reloads_refused: Counter,
}

/// Calls that were authenticated by one means, counted by outcome.
pub struct MeansCounts([Counter; AuthOutcome::ALL.len()]);

/// Outcome of authenticating a caller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// The caller is known.
    Authenticated,
    /// The caller is not known.
    Refused,
}

impl AuthOutcome {
    const ALL: [AuthOutcome; 2] = [AuthOutcome::Authenticated, AuthOutcome::Refused];

    fn name(self) -> &'static str {
        match self {
            AuthOutcome::Authenticated => "success",
            AuthOutcome::Refused => "failure",
        }
    }
}

impl AuthCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&AUTHENTICATIONS, &RELOADS];

    pub(super) fn new(registry: &Registry) -> AuthCounts {
        let reloads = |outcome| registry.counter(&RELOADS, &[outcome]);
        AuthCounts {
            registry: registry.clone(),
            reloads_taken: reloads("success"),
            reloads_refused: reloads("failure"),
        }
    }

    /// Gives the counters of the means of authentication called `name`, all at 0 when it is new.
    pub(crate) fn means(&self, name: &'static str) -> MeansCounts {
        MeansCounts(
            AuthOutcome::ALL
                .map(|outcome| self.registry.counter(&AUTHENTICATIONS, &[name, outcome.name()])),
        )
    }

    /// Counts a file of credentials that was read again.
    pub(crate) fn count_reload(&self, is_taken: bool) {
        if is_taken { &self.reloads_taken } else { &self.reloads_refused }.increment(1);
    }
}

impl MeansCounts {
    /// Counts a call whose caller had to authenticate.
    pub(crate) fn count(&self, outcome: AuthOutcome) {
        self.0[outcome as usize].increment(1);
    }
}
