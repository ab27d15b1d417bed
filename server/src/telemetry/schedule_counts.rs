//! What `berth schedule` counts; names as kube-scheduler's, with `berth_` before them.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Recorder as _};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{
    BIND_OUTCOMES, EVENTS_DROPPED, LEADER, METADATA, PENDING_PODS, PREEMPTION_ATTEMPTS,
    PREEMPTION_VICTIMS, SCHEDULE_ATTEMPTS, SCHEDULING_ATTEMPT_DURATION, SCHEDULING_SLI_DURATION,
    counter, gauge, key,
};
use crate::scheduler::queue::Counts;

/// How an attempt ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod is bound, or in the hand-off mode nominated.
    Scheduled,
    /// It fits nowhere.
    Unschedulable,
    /// The attempt failed.
    Error,
}

impl AttemptResult {
    fn name(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

/// How a binding ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is bound where it should be.
    Bound,
    /// Somebody else bound it.
    BoundElsewhere,
    /// It is gone.
    Gone,
    /// The API server would not have it.
    Refused,
    /// What came of it was not known, and it was tried again.
    Unknown,
}

/// The counters of a scheduler. Those of profiles are made when first needed: the operator names the profiles.
pub struct ScheduleCounts {
    recorder: Arc<PrometheusRecorder>,
    active: Gauge,
    backoff: Gauge,
    unschedulable: Gauge,
    gated: Gauge,
    leader: Gauge,
    victims: Histogram,
    preemptions: Counter,
    events_dropped: Counter,
    binds: [Counter; 5],
}

impl ScheduleCounts {
    pub(super) fn new(recorder: Arc<PrometheusRecorder>) -> ScheduleCounts {
        let pending = |queue| gauge(&recorder, PENDING_PODS, &[("queue", queue)]);
        let bound = |outcome| counter(&recorder, BIND_OUTCOMES, &[("outcome", outcome)]);
        ScheduleCounts {
            active: pending("active"),
            backoff: pending("backoff"),
            unschedulable: pending("unschedulable"),
            gated: pending("gated"),
            leader: gauge(&recorder, LEADER, &[]),
            victims: recorder.register_histogram(&key(PREEMPTION_VICTIMS, &[]), &METADATA),
            preemptions: counter(&recorder, PREEMPTION_ATTEMPTS, &[]),
            events_dropped: counter(&recorder, EVENTS_DROPPED, &[]),
            binds: ["bound", "bound_elsewhere", "gone", "refused", "unknown"].map(bound),
            recorder,
        }
    }

    /// Counts one attempt of a pod of a profile, which took the engine so long.
    pub fn count_attempt(&self, profile: &str, result: AttemptResult, duration: Duration) {
        let labels = || {
            let profile = Label::new("profile", profile.to_owned());
            vec![Label::from_static_parts("result", result.name()), profile]
        };
        let attempts = Key::from_parts(SCHEDULE_ATTEMPTS, labels());
        self.recorder.register_counter(&attempts, &METADATA).increment(1);
        let durations = Key::from_parts(SCHEDULING_ATTEMPT_DURATION, labels());
        let durations = self.recorder.register_histogram(&durations, &METADATA);
        durations.record(duration.as_secs_f64());
    }

    /// Notes the time from when a pod was first told of until it was bound, and its attempts.
    pub fn record_scheduled(&self, since_told: Duration, n_attempts: u32) {
        let attempts = match n_attempts {
            0 | 1 => "1",
            2 => "2",
            3..=4 => "3-4",
            5..=8 => "5-8",
            9..=16 => "9-16",
            _ => "16+",
        };
        let durations = key(SCHEDULING_SLI_DURATION, &[("attempts", attempts)]);
        let durations = self.recorder.register_histogram(&durations, &METADATA);
        durations.record(since_told.as_secs_f64());
    }

    /// Counts one preemption and how many pods it evicts.
    pub fn count_preemption(&self, n_victims: usize) {
        self.preemptions.increment(1);
        self.victims.record(f64::from(u32::try_from(n_victims).unwrap_or(u32::MAX)));
    }

    /// Counts one binding.
    pub fn count_bind(&self, outcome: BindOutcome) {
        self.binds[outcome as usize].increment(1);
    }

    /// Sets what is known of the queue.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
    pub fn set_pending(&self, counts: Counts) {
        self.active.set(counts.active as f64);
        self.backoff.set(counts.backoff as f64);
        self.unschedulable.set(counts.unschedulable as f64);
        self.gated.set(counts.gated as f64);
    }

    /// Sets whether this instance leads.
    pub fn set_leading(&self, is_leading: bool) {
        self.leader.set(if is_leading { 1.0 } else { 0.0 });
    }

    /// Sets how many events were dropped in all.
    pub fn set_events_dropped(&self, n: u64) {
        self.events_dropped.absolute(n);
    }
}
