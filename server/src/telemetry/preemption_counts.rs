//! Runs of PostFilter, whoever asked: over gRPC, or `berth schedule`.

use berth_engine::{PostFilter, PostFilterCode};

use super::description::{Description, doubled};
use super::{Counter, Histogram, Registry};

const ATTEMPTS: Description = Description::counter(
    "berth_preemption_attempts_total",
    &[],
    "Runs of PostFilter that were answered, over gRPC and by `berth schedule`.",
);
const OUTCOMES: Description = Description::counter(
    "berth_preemptions_total",
    &["outcome"],
    "The same by outcome: success, unschedulable, error.",
);
const VICTIMS: Description = Description::numbers(
    "berth_preemption_victims",
    &[],
    &VICTIM_BUCKETS,
    "Victims of the node that a run of PostFilter chose.",
);

/// kube-scheduler's.
const VICTIM_BUCKETS: [f64; 7] = doubled(1.0);

/// Runs of PostFilter, counted.
pub struct PreemptionCounts {
    attempts: Counter,
    success: Counter,
    unschedulable: Counter,
    error: Counter,
    victims: Histogram,
}

impl PreemptionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&ATTEMPTS, &OUTCOMES, &VICTIMS];

    pub(super) fn new(registry: &Registry) -> PreemptionCounts {
        let ended = |outcome| registry.counter(&OUTCOMES, &[outcome]);
        PreemptionCounts {
            attempts: registry.counter(&ATTEMPTS, &[]),
            success: ended("success"),
            unschedulable: ended("unschedulable"),
            error: ended("error"),
            victims: registry.histogram(&VICTIMS, &[]),
        }
    }

    /// Counts one run.
    pub fn count(&self, post_filter: &PostFilter) {
        self.attempts.increment(1);
        let counter = match post_filter.code {
            PostFilterCode::Success => &self.success,
            PostFilterCode::Unschedulable => &self.unschedulable,
            PostFilterCode::Error => &self.error,
        };
        counter.increment(1);
        if let Some(chosen) = &post_filter.chosen {
            let n_victims = u32::try_from(chosen.victims.len()).unwrap_or(u32::MAX);
            self.victims.record(f64::from(n_victims));
        }
    }
}
