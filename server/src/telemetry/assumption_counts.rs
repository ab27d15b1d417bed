//! Assumptions: how they ended, other than by a feed, and how often their time to live was changed.

use metrics::Counter;

use super::Registry;
use super::description::Description;

const ENDED: Description = Description::counter(
    "berth_assumptions_ended_total",
    &["reason"],
    "Assumed pods whose room came back other than by a feed or `Apply`, by reason: expired, released, undelivered (the \
     caller did not receive the response).",
);
const KEPT: Description = Description::counter(
    "berth_assumptions_kept_total",
    &["call"],
    "Assumptions whose time to live was changed, by call: confirm, extend.",
);

/// Metrics of one server's assumptions. Clones count together.
#[derive(Clone)]
pub struct AssumptionCounts {
    expired: Counter,
    released: Counter,
    undelivered: Counter,
    confirmed: Counter,
    extended: Counter,
}

/// Reason why the server ended an assumption.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AssumptionEnd {
    /// Its time to live was over.
    Expired,
    /// A caller released it.
    Released,
    /// The caller did not receive the response.
    Undelivered,
}

impl AssumptionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&ENDED, &KEPT];

    pub(super) fn new(registry: &Registry) -> AssumptionCounts {
        let ended = |reason| registry.counter(&ENDED, &[reason]);
        let kept = |call| registry.counter(&KEPT, &[call]);
        AssumptionCounts {
            expired: ended("expired"),
            released: ended("released"),
            undelivered: ended("undelivered"),
            confirmed: kept("confirm"),
            extended: kept("extend"),
        }
    }

    /// Counts assumptions that the server ended.
    pub fn count_ended(&self, end: AssumptionEnd, n: usize) {
        let counter = match end {
            AssumptionEnd::Expired => &self.expired,
            AssumptionEnd::Released => &self.released,
            AssumptionEnd::Undelivered => &self.undelivered,
        };
        counter.increment(n as u64);
    }

    /// Counts an assumption that has no time to live any more.
    pub fn count_confirmed(&self) {
        self.confirmed.increment(1);
    }

    /// Counts an assumption that has a new time to live.
    pub fn count_extended(&self) {
        self.extended.increment(1);
    }
}
