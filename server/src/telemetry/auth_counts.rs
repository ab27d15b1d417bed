//! Callers: how they prove who they are, and what became of the file that they are known by.

use super::description::Description;
use super::{Counter, Registry};
use crate::auth::Means;

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

/// One server's callers, counted. Clones count together.
#[derive(Clone)]
pub struct AuthCounts {
    /// By means, then outcome.
    authentications: [[Counter; AuthOutcome::ALL.len()]; Means::ALL.len()],
    reloads_taken: Counter,
    reloads_refused: Counter,
}

/// How it ended to prove who one is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// The caller is known.
    Authenticated,
    /// It is not.
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
            authentications: Means::ALL.map(|means| {
                AuthOutcome::ALL.map(|outcome| {
                    registry.counter(&AUTHENTICATIONS, &[means.name(), outcome.name()])
                })
            }),
            reloads_taken: reloads("success"),
            reloads_refused: reloads("failure"),
        }
    }

    /// Counts a call whose caller was asked for.
    pub(crate) fn count(&self, means: Means, outcome: AuthOutcome) {
        self.authentications[means as usize][outcome as usize].increment(1);
    }

    /// Counts a file of credentials that was read again.
    pub(crate) fn count_reload(&self, is_taken: bool) {
        if is_taken { &self.reloads_taken } else { &self.reloads_refused }.increment(1);
    }
}
