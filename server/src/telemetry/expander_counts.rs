//! What came of the expander's strategies: a counter for each and every outcome.

use super::description::Description;
use super::{Counter, Registry};
use crate::expander::strategy::Strategy;

const JUDGEMENTS: Description = Description::counter(
    "berth_expander_judgements_total",
    &["strategy", "outcome"],
    "Node groups judged for cluster-autoscaler, by strategy and outcome: narrowed, tied, undecided.",
);

/// What came of one strategy of a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExpanderOutcome {
    /// It left fewer options.
    Narrowed,
    /// It found all equally good.
    Tied,
    /// It could not tell.
    Undecided,
}

impl ExpanderOutcome {
    const ALL: [ExpanderOutcome; 3] =
        [ExpanderOutcome::Narrowed, ExpanderOutcome::Tied, ExpanderOutcome::Undecided];

    fn name(self) -> &'static str {
        match self {
            ExpanderOutcome::Narrowed => "narrowed",
            ExpanderOutcome::Tied => "tied",
            ExpanderOutcome::Undecided => "undecided",
        }
    }
}

/// One counter a (strategy, outcome).
pub struct ExpanderCounts {
    counters: [[Counter; ExpanderOutcome::ALL.len()]; Strategy::ALL.len()],
}

impl ExpanderCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&JUDGEMENTS];

    pub(super) fn new(registry: &Registry) -> ExpanderCounts {
        ExpanderCounts {
            counters: Strategy::ALL.map(|strategy| {
                ExpanderOutcome::ALL.map(|outcome| {
                    registry.counter(&JUDGEMENTS, &[strategy.name(), outcome.name()])
                })
            }),
        }
    }

    /// Counts one judgement.
    pub fn count(&self, strategy: Strategy, outcome: ExpanderOutcome) {
        self.counters[strategy as usize][outcome as usize].increment(1);
    }
}
