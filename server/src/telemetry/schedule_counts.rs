//! `berth schedule`: attempts, queues, bindings and leadership. Names and labels are kube-scheduler's, with `berth_` in
//! place of `scheduler_`.

mod profile;

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::description::{Description, doubled};
use super::{Registry, count};
use profile::Profiles;
pub use profile::{AttemptResult, ExtensionPoint};

const ALGORITHM_DURATION: Description = Description::seconds(
    "berth_scheduling_algorithm_duration_seconds",
    &[],
    &ALGORITHM_BUCKETS,
    "The engine's time for an attempt of `berth schedule`; the pods of a batch share it equally.",
);
const SLI_DURATION: Description = Description::seconds(
    "berth_pod_scheduling_sli_duration_seconds",
    &["attempts"],
    &SLI_BUCKETS,
    "Time from when a pod first became ready for an attempt until it was bound, by its number of attempts: 1 to 14, 15+.",
);
const POD_ATTEMPTS: Description = Description::numbers(
    "berth_pod_scheduling_attempts",
    &[],
    &POD_ATTEMPT_BUCKETS,
    "Attempts that a pod needed until it was bound.",
);
const AFTER_FLUSH: Description = Description::counter(
    "berth_pod_scheduled_after_flush_total",
    &[],
    "Pods bound in an attempt that a timeout caused, not a change of the cluster.",
);
const PENDING_PODS: Description = Description::gauge(
    "berth_pending_pods",
    &["queue"],
    "Pods that wait to be scheduled, by queue: active, backoff, unschedulable, gated.",
);
const INCOMING_PODS: Description = Description::counter(
    "berth_queue_incoming_pods_total",
    &["queue", "event"],
    "Pods added to a queue, by queue (active, backoff, unschedulable) and the event that caused it.",
);
const UNSCHEDULABLE_PODS: Description = Description::gauge(
    "berth_unschedulable_pods",
    &["plugin", "profile"],
    "Pods that a plugin helped to reject in their last attempt, by plugin and profile; a pod counts once for each such plugin.",
);
const BINDS: Description = Description::counter(
    "berth_binds_total",
    &["outcome"],
    "Bindings, by outcome: bound, bound_elsewhere, gone, refused, unknown.",
);
const BIND_LIMIT: Description = Description::gauge(
    "berth_bind_concurrency_limit",
    &[],
    "Bindings that may be in flight at a time, as the API server's response times have it.",
);
const EVENTS_DROPPED: Description = Description::counter(
    "berth_events_dropped_total",
    &[],
    "Kubernetes events that were not written because too many were waiting.",
);
const LEADER: Description = Description::gauge(
    "berth_leader",
    &[],
    "1 while this instance may schedule, 0 while it stands by.",
);

/// Buckets from 16 µs. kube-scheduler's begin at 1 ms; most attempts here take a fraction of that.
const ALGORITHM_BUCKETS: [f64; 21] = doubled(0.001 / 64.0);
/// kube-scheduler's buckets, from 10 ms to an hour and a half.
const SLI_BUCKETS: [f64; 20] = doubled(0.01);
/// kube-scheduler's buckets.
const POD_ATTEMPT_BUCKETS: [f64; 5] = doubled(1.0);

/// Labels by number of attempts, from 1. The last stands for all larger numbers.
const ATTEMPT_LABELS: [&str; 15] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15+"];

/// Outcome of a binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is bound to the chosen node.
    Bound,
    /// Another scheduler bound the pod.
    BoundElsewhere,
    /// The pod does not exist any more.
    Gone,
    /// The API server refused the binding.
    Refused,
    /// The outcome was not known, and the pod was tried again.
    Unknown,
}

/// Metrics of `berth schedule`.
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
    bind_limit: Gauge,
    events_dropped: Counter,
    binds: [Counter; 5],
    /// Histograms of the time since ready, by number of attempts.
    since_ready: [OnceLock<Histogram>; ATTEMPT_LABELS.len()],
    profiles: Profiles,
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
        &profile::ATTEMPTS,
        &profile::ATTEMPT_DURATION,
        &ALGORITHM_DURATION,
        &SLI_DURATION,
        &POD_ATTEMPTS,
        &profile::EXTENSION_POINT_DURATION,
        &AFTER_FLUSH,
        &PENDING_PODS,
        &INCOMING_PODS,
        &UNSCHEDULABLE_PODS,
        &BINDS,
        &BIND_LIMIT,
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
            bind_limit: registry.gauge(&BIND_LIMIT, &[]),
            events_dropped: registry.counter(&EVENTS_DROPPED, &[]),
            binds: ["bound", "bound_elsewhere", "gone", "refused", "unknown"].map(bound),
            since_ready: Default::default(),
            profiles: Profiles::new(registry),
            registry: registry.clone(),
        }
    }

    /// Counts one attempt for a pod of a profile and records the time until its result was known.
    pub fn count_attempt(&self, profile: &str, result: AttemptResult, duration: Duration) {
        self.profiles.count_attempt(profile, result, duration);
    }

    /// Records the engine's time for one pod's attempt.
    pub fn record_algorithm(&self, duration: Duration) {
        self.algorithm.record(duration);
    }

    /// Records the time of an extension point for a pod of a profile.
    pub fn record_extension_point(
        &self,
        point: ExtensionPoint,
        is_success: bool,
        profile: &str,
        duration: Duration,
    ) {
        self.profiles.record_extension_point(point, is_success, profile, duration);
    }

    /// Records a pod that was bound: the time since it first became ready, its attempts, and whether a timeout caused
    /// the last one.
    pub fn record_scheduled(&self, since_ready: Duration, n_attempts: u32, was_flushed: bool) {
        let attempts = n_attempts.max(1);
        let index = usize::try_from(attempts - 1).unwrap_or(usize::MAX);
        let index = index.min(ATTEMPT_LABELS.len() - 1);
        self.since_ready[index]
            .get_or_init(|| self.registry.histogram(&SLI_DURATION, &[ATTEMPT_LABELS[index]]))
            .record(since_ready);
        self.pod_attempts.record(attempts);
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
        self.active.set(count(pods.active));
        self.backoff.set(count(pods.backoff));
        self.unschedulable.set(count(pods.unschedulable));
        self.gated.set(count(pods.gated));
    }

    /// Gives the counter of pods that come into a queue because of an event.
    pub fn incoming(&self, queue: &'static str, event: &'static str) -> Counter {
        self.registry.counter(&INCOMING_PODS, &[queue, event])
    }

    /// Gives the gauge of the pods of a profile that a plugin helped to reject.
    pub fn unschedulable(&self, plugin: &'static str, profile: &str) -> Gauge {
        self.registry.gauge(&UNSCHEDULABLE_PODS, &[plugin, profile])
    }

    /// Sets whether this instance is the leader.
    pub fn set_leading(&self, is_leading: bool) {
        self.leader.set(if is_leading { 1.0 } else { 0.0 });
    }

    /// Sets how many bindings may be in flight at a time.
    pub fn set_bind_limit(&self, n: usize) {
        self.bind_limit.set(count(n));
    }

    /// Sets the number of events dropped since the start.
    pub fn set_events_dropped(&self, n: u64) {
        self.events_dropped.absolute(n);
    }
}
