//! Metrics that `berth schedule` counts by profile. The operator names the profiles, so the series of one are made when
//! it first counts.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Histogram};

use super::super::Registry;
use super::super::description::{Description, doubled};

pub(super) const ATTEMPTS: Description = Description::counter(
    "berth_schedule_attempts_total",
    &["result", "profile"],
    "Attempts of `berth schedule`, by result and profile: scheduled, unschedulable, error.",
);
pub(super) const ATTEMPT_DURATION: Description = Description::seconds(
    "berth_scheduling_attempt_duration_seconds",
    &["result", "profile"],
    &ATTEMPT_BUCKETS,
    "Time from taking a pod from the queue until it is bound or nominated or the attempt has failed, by result and profile.",
);
pub(super) const EXTENSION_POINT_DURATION: Description = Description::seconds(
    "berth_framework_extension_point_duration_seconds",
    &["extension_point", "status", "profile"],
    &EXTENSION_POINT_BUCKETS,
    "Time of an extension point that writes to the API server, by extension point (PreBind, Bind), status (Success, Error) and profile.",
);

/// kube-scheduler's buckets, from 1 ms.
const ATTEMPT_BUCKETS: [f64; 15] = doubled(0.001);
/// kube-scheduler's buckets, from 0.1 ms.
const EXTENSION_POINT_BUCKETS: [f64; 12] = doubled(0.0001);

/// Result of an attempt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod is bound, or nominated in hand-off mode.
    Scheduled,
    /// The pod fits on no node.
    Unschedulable,
    /// The attempt failed.
    Error,
}

impl AttemptResult {
    const N: usize = 3;

    fn name(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

/// An extension point of kube-scheduler's framework that Berth measures too.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExtensionPoint {
    /// Binds claims to volumes.
    PreBind,
    /// Sends the Binding.
    Bind,
}

impl ExtensionPoint {
    const N: usize = 2;

    fn name(self) -> &'static str {
        match self {
            ExtensionPoint::PreBind => "PreBind",
            ExtensionPoint::Bind => "Bind",
        }
    }
}

/// Metrics of every profile that has counted anything.
pub(super) struct Profiles {
    registry: Registry,
    by_name: RwLock<BTreeMap<Box<str>, Arc<Profile>>>,
}

/// Handles of one profile, kept so that an attempt neither allocates nor waits for a scrape.
#[derive(Default)]
struct Profile {
    attempts: [OnceLock<(Counter, Histogram)>; AttemptResult::N],
    /// Histograms by extension point, then by success.
    extension_points: [[OnceLock<Histogram>; 2]; ExtensionPoint::N],
}

impl Profiles {
    pub(super) fn new(registry: &Registry) -> Profiles {
        Profiles { registry: registry.clone(), by_name: RwLock::default() }
    }

    /// Counts one attempt and records its duration.
    pub(super) fn count_attempt(&self, profile: &str, result: AttemptResult, duration: Duration) {
        let handles = self.profile(profile);
        let (attempts, durations) = handles.attempts[result as usize].get_or_init(|| {
            let labels = [result.name(), profile];
            (
                self.registry.counter(&ATTEMPTS, &labels),
                self.registry.histogram(&ATTEMPT_DURATION, &labels),
            )
        });
        attempts.increment(1);
        durations.record(duration);
    }

    /// Records the duration of an extension point.
    pub(super) fn record_extension_point(
        &self,
        point: ExtensionPoint,
        is_success: bool,
        profile: &str,
        duration: Duration,
    ) {
        let handles = self.profile(profile);
        let status = if is_success { "Success" } else { "Error" };
        handles.extension_points[point as usize][usize::from(is_success)]
            .get_or_init(|| {
                let labels = [point.name(), status, profile];
                self.registry.histogram(&EXTENSION_POINT_DURATION, &labels)
            })
            .record(duration);
    }

    fn profile(&self, name: &str) -> Arc<Profile> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(profile) = by_name.get(name) {
            return profile.clone();
        }
        drop(by_name);
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.entry(name.into()).or_default().clone()
    }
}
