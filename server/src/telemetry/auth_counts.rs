//! Authentication: calls by means and outcome, and reloads of the token file.

use metrics::Counter;

use super::Registry;
use super::description::Description;

const AUTHENTICATIONS: Description = Description::counter(
    "berth_authentications_total",
    &["means", "outcome"],
    "Calls that had to authenticate, by means (nothing, certificate, token) and outcome: success, failure; nothing succeeds as `system:anonymous`. 0 where authentication is off.",
);
const RELOADS: Description = Description::counter(
    "berth_auth_reloads_total",
    &["outcome"],
    "Reloads of the token file, by outcome: success, failure; after a failure the previous tokens stay in force.",
);

/// Metrics of one server's authentication. Clones count together.
#[derive(Clone)]
pub struct AuthCounts {
    registry: Registry,
    reloads_succeeded: Counter,
    reloads_failed: Counter,
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
            reloads_succeeded: reloads("success"),
            reloads_failed: reloads("failure"),
        }
    }

    /// Gives the counters of the means of authentication called `name`, all at 0 when it is new.
    pub(crate) fn means(&self, name: &'static str) -> MeansCounts {
        MeansCounts(
            AuthOutcome::ALL
                .map(|outcome| self.registry.counter(&AUTHENTICATIONS, &[name, outcome.name()])),
        )
    }

    /// Counts a reload of the token file.
    pub(crate) fn count_reload(&self, is_success: bool) {
        if is_success { &self.reloads_succeeded } else { &self.reloads_failed }.increment(1);
    }
}

impl MeansCounts {
    /// Counts a call whose caller had to authenticate.
    pub(crate) fn count(&self, outcome: AuthOutcome) {
        self.0[outcome as usize].increment(1);
    }
}
