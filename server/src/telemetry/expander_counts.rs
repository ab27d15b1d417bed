//! The expander: judgements by strategy and outcome.

use metrics::Counter;

use super::Registry;
use super::description::Description;

const JUDGEMENTS: Description = Description::counter(
    "berth_expander_judgements_total",
    &["strategy", "outcome"],
    "Judgements of node groups for cluster-autoscaler, by strategy and outcome: narrowed, tied, undecided.",
);

/// Outcome of one strategy of a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExpanderOutcome {
    /// The strategy left fewer options.
    Narrowed,
    /// The strategy found all options equally good.
    Tied,
    /// The strategy could not decide.
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

/// Metrics of the expander.
pub struct ExpanderCounts {
    registry: Registry,
}

/// Judgements of one strategy, counted by outcome.
pub struct StrategyCounts([Counter; ExpanderOutcome::ALL.len()]);

impl ExpanderCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&JUDGEMENTS];

    pub(super) fn new(registry: &Registry) -> ExpanderCounts {
        ExpanderCounts { registry: registry.clone() }
    }

    /// Gives the counters of the strategy called `name`, all at 0 when it is new.
    #[must_use]
    pub fn strategy(&self, name: &'static str) -> StrategyCounts {
        StrategyCounts(
            ExpanderOutcome::ALL
                .map(|outcome| self.registry.counter(&JUDGEMENTS, &[name, outcome.name()])),
        )
    }
}

impl StrategyCounts {
    /// Counts one judgement.
    pub fn count(&self, outcome: ExpanderOutcome) {
        self.0[outcome as usize].increment(1);
    }
}
