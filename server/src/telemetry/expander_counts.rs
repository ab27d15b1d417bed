//! What came of the expander's strategies: a counter for each and every outcome.

use metrics::Counter;
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{EXPANDER_JUDGEMENTS, counter};
use crate::expander::strategy::Strategy;

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
    pub(super) fn new(recorder: &PrometheusRecorder) -> ExpanderCounts {
        ExpanderCounts {
            counters: Strategy::ALL.map(|strategy| {
                ExpanderOutcome::ALL.map(|outcome| {
                    let labels = [("strategy", strategy.name()), ("outcome", outcome.name())];
                    counter(recorder, EXPANDER_JUDGEMENTS, &labels)
                })
            }),
        }
    }

    /// Counts one judgement.
    pub fn count(&self, strategy: Strategy, outcome: ExpanderOutcome) {
        self.counters[strategy as usize][outcome as usize].increment(1);
    }
}
