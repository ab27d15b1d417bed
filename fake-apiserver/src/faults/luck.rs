//! The chance of one request, and of the watch that it may begin.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use rand::{Rng as _, RngExt as _};
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

use super::{Faults, Plan};

/// The chance of one watch.
pub(crate) struct Luck {
    pub(super) faults: Faults,
    /// The request, as `METHOD path?query`.
    pub(super) what: String,
    pub(super) dice: ChaCha8Rng,
    /// The range that the number of events before a cut was drawn from, and the number.
    pub(super) cut_after: Option<(RangeInclusive<u64>, u64)>,
    pub(super) n_events: u64,
}

/// What befalls one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    None,
    Cut,
    Gone,
    Garbage,
    Duplicate,
    Reorder,
}

impl Luck {
    pub(super) fn concerned(&self, plan: &Plan) -> bool {
        self.what.contains(plan.only.as_str())
    }

    pub(super) fn hit(&mut self, probability: f64, fault: &'static str) -> bool {
        probability > 0.0
            && self.dice.random_bool(probability.clamp(0.0, 1.0))
            && self.faults.spend(fault)
    }

    /// The plan in force for this watch.
    pub(crate) fn plan(&self) -> Option<Plan> {
        if self.faults.shared.is_quiet.load(Ordering::Acquire) {
            return None;
        }
        let plan = self.faults.plan().clone();
        self.concerned(&plan).then_some(plan)
    }

    /// Tells of [`Faults::cut_now`].
    pub(crate) fn cuts(&self) -> watch::Receiver<u64> {
        self.faults.shared.cuts.subscribe()
    }

    /// What befalls the next live event.
    pub(crate) fn next(&mut self) -> Mishap {
        let Some(plan) = self.plan() else { return Mishap::None };
        self.n_events += 1;
        if let Some(range) = plan.cut_after {
            let bound = match &self.cut_after {
                Some((drawn_from, bound)) if *drawn_from == range => *bound,
                _ => {
                    // Counted from when the fault came into force.
                    self.n_events = 1;
                    let span = range.end().saturating_sub(*range.start()).saturating_add(1);
                    range.start() + self.dice.next_u64() % span.max(1)
                }
            };
            self.cut_after = Some((range, bound));
            if self.n_events > bound && self.faults.spend("cut_watches_after") {
                return Mishap::Cut;
            }
        }
        for (probability, fault, mishap) in [
            (plan.cut, "cut_watches", Mishap::Cut),
            (plan.gone, "gone", Mishap::Gone),
            (plan.garbage, "garbage", Mishap::Garbage),
            (plan.duplicate, "duplicate", Mishap::Duplicate),
            (plan.reorder, "reorder", Mishap::Reorder),
        ] {
            if self.hit(probability, fault) {
                return mishap;
            }
        }
        Mishap::None
    }

    pub(crate) fn half_closes(&mut self) -> bool {
        self.plan().is_some_and(|plan| plan.half_close) && self.faults.spend("half_close")
    }
}
