//! What `berth schedule` counts; names and labels as kube-scheduler's, with `berth_` for `scheduler_`.

use std::time::Duration;

use super::description::{Description, doubled};
use super::{Counter, Gauge, Histogram, Registry};

const ATTEMPTS: Description = Description::counter(
    "berth_schedule_attempts_total",
    &["result", "profile"],
    "Attempts of `berth schedule`, by result and profile: scheduled, unschedulable, error.",
);
const ATTEMPT_DURATION: Description = Description::seconds(
    "berth_scheduling_attempt_duration_seconds",
    &["result", "profile"],
    &ATTEMPT_BUCKETS,
    "From when a pod is taken from the queue until it is bound, or nominated, or is known not to be, by result and profile.",
);
const ALGORITHM_DURATION: Description = Description::seconds(
    "berth_scheduling_algorithm_duration_seconds",
    &[],
    &ALGORITHM_BUCKETS,
    "Engine time of an attempt of `berth schedule`; pods of one batch share theirs.",
);
const SLI_DURATION: Description = Description::seconds(
    "berth_pod_scheduling_sli_duration_seconds",
    &["attempts"],
    &SLI_BUCKETS,
    "From when a pod was first ready to be tried until it was bound, by its number of attempts: 1 to 14, 15+.",
);
const POD_ATTEMPTS: Description = Description::numbers(
    "berth_pod_scheduling_attempts",
    &[],
    &POD_ATTEMPT_BUCKETS,
    "Attempts that a pod took until it was bound.",
);
const EXTENSION_POINT_DURATION: Description = Description::seconds(
    "berth_framework_extension_point_duration_seconds",
    &["extension_point", "status", "profile"],
    &EXTENSION_POINT_BUCKETS,
    "Time of an extension point that writes to the API server, by extension point (PreBind, Bind), status (Success, Error) and profile.",
);
const AFTER_FLUSH: Description = Description::counter(
    "berth_pod_scheduled_after_flush_total",
    &[],
    "Pods bound in an attempt that only the time brought, not a change of the cluster.",
);
const PENDING_PODS: Description = Description::gauge(
    "berth_pending_pods",
    &["queue"],
    "Pods that wait for `berth schedule`, by queue: active, backoff, unschedulable, gated.",
);
const INCOMING_PODS: Description = Description::counter(
    "berth_queue_incoming_pods_total",
    &["queue", "event"],
    "Pods that came into a queue, by queue (active, backoff, unschedulable) and the event that brought them.",
);
const UNSCHEDULABLE_PODS: Description = Description::gauge(
    "berth_unschedulable_pods",
    &["plugin", "profile"],
    "Pods whose last attempt a plugin had a part in failing, by plugin and profile; a pod counts with each such plugin.",
);
const BINDS: Description = Description::counter(
    "berth_binds_total",
    &["outcome"],
    "Bindings of `berth schedule`, by outcome: bound, bound_elsewhere, gone, refused, unknown.",
);
const EVENTS_DROPPED: Description = Description::counter(
    "berth_events_dropped_total",
    &[],
    "Events that were not written, for too many waited.",
);
const LEADER: Description = Description::gauge(
    "berth_leader",
    &[],
    "1 where this instance may schedule, 0 where it stands by.",
);

/// kube-scheduler's, from 1 ms.
const ATTEMPT_BUCKETS: [f64; 15] = doubled(0.001);
/// kube-scheduler's begin with 1 ms as well; most attempts here take a fraction of that.
const ALGORITHM_BUCKETS: [f64; 21] = doubled(0.001 / 64.0);
/// kube-scheduler's, from 10 ms to an hour and a half.
const SLI_BUCKETS: [f64; 20] = doubled(0.01);
/// kube-scheduler's.
const POD_ATTEMPT_BUCKETS: [f64; 5] = doubled(1.0);
/// kube-scheduler's, from 0.1 ms.
const EXTENSION_POINT_BUCKETS: [f64; 12] = doubled(0.0001);

/// Number of attempts from which on they are one label.
const MANY_ATTEMPTS: u32 = 15;

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

/// An extension point of kube-scheduler's framework whose time is its own here too.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtensionPoint {
    /// Claims are bound to volumes.
    PreBind,
    /// The Binding is sent.
    Bind,
}

impl ExtensionPoint {
    fn name(self) -> &'static str {
        match self {
            ExtensionPoint::PreBind => "PreBind",
            ExtensionPoint::Bind => "Bind",
        }
    }
}

/// The counters of a scheduler. Those of profiles are made when first needed: the operator names the profiles.
pub struct ScheduleCounts {
    registry: Registry,
    active: Gauge,
    backoff: Gauge,
    unschedulable: Gauge,
    gated: Gauge,
    leader: Gauge,
    algorithm: Histogram,
    pod_attempts: Histogram,
    after_flush: Counter,
    events_dropped: Counter,
    binds: [Counter; 5],
}

/// Pods that wait for `berth schedule`, by queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PendingPods {
    /// Pods that are ready for an attempt.
    pub active: usize,
    /// Pods that wait for their backoff to end.
    pub backoff: usize,
    /// Pods that wait for a change of the cluster.
    pub unschedulable: usize,
    /// Pods that their scheduling gates hold back.
    pub gated: usize,
}

impl ScheduleCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[
        &ATTEMPTS,
        &ATTEMPT_DURATION,
        &ALGORITHM_DURATION,
        &SLI_DURATION,
        &POD_ATTEMPTS,
        &EXTENSION_POINT_DURATION,
        &AFTER_FLUSH,
        &PENDING_PODS,
        &INCOMING_PODS,
        &UNSCHEDULABLE_PODS,
        &BINDS,
        &EVENTS_DROPPED,
        &LEADER,
    ];

    pub(super) fn new(registry: &Registry) -> ScheduleCounts {
        let pending = |queue| registry.gauge(&PENDING_PODS, &[queue]);
        let bound = |outcome| registry.counter(&BINDS, &[outcome]);
        ScheduleCounts {
            active: pending("active"),
            backoff: pending("backoff"),
            unschedulable: pending("unschedulable"),
            gated: pending("gated"),
            leader: registry.gauge(&LEADER, &[]),
            algorithm: registry.histogram(&ALGORITHM_DURATION, &[]),
            pod_attempts: registry.histogram(&POD_ATTEMPTS, &[]),
            after_flush: registry.counter(&AFTER_FLUSH, &[]),
            events_dropped: registry.counter(&EVENTS_DROPPED, &[]),
            binds: ["bound", "bound_elsewhere", "gone", "refused", "unknown"].map(bound),
            registry: registry.clone(),
        }
    }

    /// Counts one attempt of a pod of a profile, and how long it took until its result was known.
    pub fn count_attempt(&self, profile: &str, result: AttemptResult, duration: Duration) {
        let labels = [result.name(), profile];
        self.registry.counter(&ATTEMPTS, &labels).increment(1);
        self.registry.histogram(&ATTEMPT_DURATION, &labels).record_duration(duration);
    }

    /// Notes the engine time of one pod's attempt.
    pub fn record_algorithm(&self, duration: Duration) {
        self.algorithm.record_duration(duration);
    }

    /// Notes how long an extension point took for a pod of a profile.
    pub fn record_extension_point(
        &self,
        point: ExtensionPoint,
        is_success: bool,
        profile: &str,
        duration: Duration,
    ) {
        let status = if is_success { "Success" } else { "Error" };
        let labels = [point.name(), status, profile];
        self.registry.histogram(&EXTENSION_POINT_DURATION, &labels).record_duration(duration);
    }

    /// Notes a pod that was bound: the time since it was first ready, its attempts, and whether the last of them came only of
    /// having waited for long.
    pub fn record_scheduled(&self, since_ready: Duration, n_attempts: u32, was_flushed: bool) {
        let attempts = n_attempts.max(1);
        let label = match attempts {
            MANY_ATTEMPTS.. => format!("{MANY_ATTEMPTS}+"),
            few => few.to_string(),
        };
        self.registry.histogram(&SLI_DURATION, &[&label]).record_duration(since_ready);
        self.pod_attempts.record(f64::from(attempts));
        if was_flushed {
            self.after_flush.increment(1);
        }
    }

    /// Counts one binding.
    pub fn count_bind(&self, outcome: BindOutcome) {
        self.binds[outcome as usize].increment(1);
    }

    /// Sets how many pods wait in each queue.
    pub fn set_pending(&self, pods: PendingPods) {
        self.active.set_count(pods.active);
        self.backoff.set_count(pods.backoff);
        self.unschedulable.set_count(pods.unschedulable);
        self.gated.set_count(pods.gated);
    }

    /// Gives the counter of pods that come into a queue because of an event.
    #[must_use]
    pub fn incoming(&self, queue: &'static str, event: &'static str) -> Counter {
        self.registry.counter(&INCOMING_PODS, &[queue, event])
    }

    /// Sets how many pods of a profile a plugin holds back.
    pub fn set_unschedulable(&self, plugin: &'static str, profile: &str, n_pods: usize) {
        self.registry.gauge(&UNSCHEDULABLE_PODS, &[plugin, profile]).set_count(n_pods);
    }

    /// Sets whether this instance leads.
    pub fn set_leading(&self, is_leading: bool) {
        self.leader.set(if is_leading { 1.0 } else { 0.0 });
    }

    /// Sets how many events were dropped in all.
    pub fn set_events_dropped(&self, n: u64) {
        self.events_dropped.raise_to(n);
    }
}
