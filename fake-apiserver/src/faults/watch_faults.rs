//! [`WatchFaults`]: draws the faults of one request and of the events of its watch.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::{Rng as _, RngExt as _};
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

use super::state::{FaultState, Plan};

/// Random source and counts of one request or watch.
pub(crate) struct WatchFaults {
    pub(super) state: Arc<FaultState>,
    /// The request, as `METHOD path?query`.
    pub(super) what: String,
    pub(super) rng: ChaCha8Rng,
    /// Number of events before a cut, with the range from which it was drawn.
    pub(super) cut_after: Option<(RangeInclusive<u64>, u64)>,
    pub(super) n_events: u64,
}

/// Fault of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventFault {
    None,
    Cut,
    Gone,
    Garbage,
    Duplicate,
    Reorder,
}

impl WatchFaults {
    /// Whether the plan's faults apply to this request.
    pub(super) fn applies(&self, plan: &Plan) -> bool {
        self.what.contains(plan.only.as_str())
    }

    /// Draws whether a fault happens, and counts it.
    pub(super) fn hit(&mut self, probability: f64, fault: &'static str) -> bool {
        probability > 0.0
            && self.rng.random_bool(probability.clamp(0.0, 1.0))
            && self.state.spend(fault)
    }

    /// The plan in force; `None` if no fault applies to this request.
    pub(crate) fn plan(&self) -> Option<Plan> {
        if self.state.is_quiet.load(Ordering::Acquire) {
            return None;
        }
        let plan = self.state.plan().clone();
        self.applies(&plan).then_some(plan)
    }

    /// Receives a new value at each call of [`Faults::cut_now`](super::Faults::cut_now).
    pub(crate) fn cuts(&self) -> watch::Receiver<u64> {
        self.state.cuts.subscribe()
    }

    /// Draws the fault of the next live event.
    pub(crate) fn next(&mut self) -> EventFault {
        let Some(plan) = self.plan() else { return EventFault::None };
        self.n_events += 1;
        if let Some(range) = plan.cut_after {
            let bound = match &self.cut_after {
                Some((drawn_from, bound)) if *drawn_from == range => *bound,
                _ => {
                    // The count starts when the fault comes into force.
                    self.n_events = 1;
                    let span = range.end().saturating_sub(*range.start()).saturating_add(1);
                    range.start() + self.rng.next_u64() % span.max(1)
                }
            };
            self.cut_after = Some((range, bound));
            if self.n_events > bound && self.state.spend("cut_watches_after") {
                return EventFault::Cut;
            }
        }
        for (probability, fault, event_fault) in [
            (plan.cut, "cut_watches", EventFault::Cut),
            (plan.gone, "gone", EventFault::Gone),
            (plan.garbage, "garbage", EventFault::Garbage),
            (plan.duplicate, "duplicate", EventFault::Duplicate),
            (plan.reorder, "reorder", EventFault::Reorder),
        ] {
            if self.hit(probability, fault) {
                return event_fault;
            }
        }
        EventFault::None
    }

    /// Whether the watch ends without the closing chunk.
    pub(crate) fn half_closes(&mut self) -> bool {
        self.plan().is_some_and(|plan| plan.half_close) && self.state.spend("half_close")
    }
}
