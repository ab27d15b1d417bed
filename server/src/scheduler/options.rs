//! Options: what the operator decides of scheduling, beyond the profiles.

use std::time::Duration;

use super::group::GroupKeys;
use super::queue::QueueOptions;
use crate::apiserver::lease::LeaseOptions;

/// How to schedule.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// How long pods rest between attempts.
    pub queue: QueueOptions,
    /// Which labels make a group.
    pub groups: GroupKeys,
    /// Only nominate: kube-scheduler binds, and evicts where something has to go.
    pub hand_off: bool,
    /// The Lease to lead by; `None` for an instance that is alone.
    pub lease: Option<LeaseOptions>,
    /// Pods of one call of the engine.
    pub max_batch: usize,
    /// Bindings that are under way at a time.
    pub bind_concurrency: usize,
    /// Bindings a second, and how many at once; `None` for as many as the API server takes.
    pub bind_rate: Option<BindRate>,
    /// How long claims may take to be bound before the pod is placed anew (`bindTimeoutSeconds` of VolumeBinding).
    pub volume_bind_timeout: Duration,
    /// How long a nomination of the hand-off mode stands before it is looked at again.
    pub nomination_timeout: Duration,
    /// How long what is under way may take once the scheduler stops.
    pub stop_timeout: Duration,
    /// This process for people, in events.
    pub instance: String,
}

/// A bound on bindings.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BindRate {
    /// A second, on average; greater than 0.
    pub per_second: f64,
    /// At once, after a pause; at least 1.
    pub burst: u32,
}

impl Default for SchedulerOptions {
    /// As kube-scheduler where it has the same; no Lease, no bound on the rate.
    fn default() -> SchedulerOptions {
        SchedulerOptions {
            queue: QueueOptions::default(),
            groups: GroupKeys::default(),
            hand_off: false,
            lease: None,
            max_batch: 1_024,
            bind_concurrency: 64,
            bind_rate: None,
            volume_bind_timeout: Duration::from_secs(600),
            nomination_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(10),
            instance: "berth".to_owned(),
        }
    }
}
