//! Preemption: runs of PostFilter, over gRPC and by `berth schedule`.

use berth_engine::{PostFilter, PostFilterCode};
use metrics::{Counter, Histogram};

use super::Registry;
use super::description::{Description, doubled};

const ATTEMPTS: Description = Description::counter(
    "berth_preemption_attempts_total",
    &[],
    "Runs of PostFilter that were answered, over gRPC and by `berth schedule`.",
);
const OUTCOMES: Description = Description::counter(
    "berth_preemptions_total",
    &["outcome"],
    "Runs of PostFilter that were answered, by outcome: success, unschedulable, error.",
);
const VICTIMS: Description = Description::numbers(
    "berth_preemption_victims",
    &[],
    &VICTIM_BUCKETS,
    "Victims on the node that a run of PostFilter chose.",
);

/// kube-scheduler's buckets.
const VICTIM_BUCKETS: [f64; 7] = doubled(1.0);

/// Metrics of preemption.
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

    /// Counts one run of PostFilter.
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
