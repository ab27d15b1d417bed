//! Extender calls: finished calls by verb and outcome, and their duration by verb.

use std::time::Duration;

use metrics::{Counter, Histogram};

use super::Registry;
use super::description::{DURATION_BUCKETS, Description};

const REQUESTS: Description = Description::counter(
    "berth_extender_requests_total",
    &["verb", "outcome"],
    "Finished extender calls, by verb and outcome: answered, invalid, refused, unavailable.",
);
const DURATION: Description = Description::seconds(
    "berth_extender_duration_seconds",
    &["verb"],
    &DURATION_BUCKETS,
    "Time from the last byte of an extender call's body to its complete response, by verb.",
);

/// A verb of the extender protocol.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtenderVerb {
    /// The verb `filter`.
    Filter,
    /// The verb `prioritize`.
    Prioritize,
    /// The verb `preempt`.
    Preempt,
    /// The verb `bind`.
    Bind,
}

impl ExtenderVerb {
    const ALL: [ExtenderVerb; 4] =
        [ExtenderVerb::Filter, ExtenderVerb::Prioritize, ExtenderVerb::Preempt, ExtenderVerb::Bind];

    /// Name of the verb in paths and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ExtenderVerb::Filter => "filter",
            ExtenderVerb::Prioritize => "prioritize",
            ExtenderVerb::Preempt => "preempt",
            ExtenderVerb::Bind => "bind",
        }
    }
}

/// Outcome of an extender call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtenderOutcome {
    /// The call was answered.
    Answered,
    /// The request was malformed, too large or cut off.
    Invalid,
    /// The request was well formed and could not be carried out: a second bind, a plugin that is not built.
    Refused,
    /// The server is not ready or too busy.
    Unavailable,
}

impl ExtenderOutcome {
    const ALL: [ExtenderOutcome; 4] = [
        ExtenderOutcome::Answered,
        ExtenderOutcome::Invalid,
        ExtenderOutcome::Refused,
        ExtenderOutcome::Unavailable,
    ];

    fn name(self) -> &'static str {
        match self {
            ExtenderOutcome::Answered => "answered",
            ExtenderOutcome::Invalid => "invalid",
            ExtenderOutcome::Refused => "refused",
            ExtenderOutcome::Unavailable => "unavailable",
        }
    }
}

/// Metrics of one server's extender calls.
pub struct ExtenderCounts([VerbCounts; ExtenderVerb::ALL.len()]);

struct VerbCounts {
    outcomes: [Counter; ExtenderOutcome::ALL.len()],
    duration: Histogram,
}

impl ExtenderCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&REQUESTS, &DURATION];

    pub(super) fn new(registry: &Registry) -> ExtenderCounts {
        ExtenderCounts(ExtenderVerb::ALL.map(|verb| {
            VerbCounts {
                outcomes: ExtenderOutcome::ALL
                    .map(|outcome| registry.counter(&REQUESTS, &[verb.name(), outcome.name()])),
                duration: registry.histogram(&DURATION, &[verb.name()]),
            }
        }))
    }

    /// Counts one finished call.
    pub fn count(&self, verb: ExtenderVerb, outcome: ExtenderOutcome) {
        self.0[verb as usize].outcomes[outcome as usize].increment(1);
    }

    /// Records the time from the last byte of a call's body to its complete response.
    pub fn record_duration(&self, verb: ExtenderVerb, duration: Duration) {
        self.0[verb as usize].duration.record(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn calls_are_counted_by_verb_and_outcome() {
        let metrics = Metrics::new();
        metrics.extender().count(ExtenderVerb::Bind, ExtenderOutcome::Refused);
        metrics.extender().record_duration(ExtenderVerb::Filter, Duration::from_micros(3));
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for expected in [
            "berth_extender_requests_total{verb=\"bind\",outcome=\"refused\"} 1",
            "berth_extender_requests_total{verb=\"bind\",outcome=\"answered\"} 0",
            "berth_extender_duration_seconds_bucket{verb=\"filter\",le=\"0.000005\"} 1",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
