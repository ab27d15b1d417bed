//! Options of the scheduler, beyond the profiles.

use std::time::Duration;

use super::group::GroupKeys;
use super::queue::QueueOptions;
use crate::apiserver::lease::LeaseOptions;

/// Options of the scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Backoff and flush times of the queue.
    pub queue: QueueOptions,
    /// Labels that make a group.
    pub groups: GroupKeys,
    /// Only nominate: kube-scheduler binds, and evicts if necessary.
    pub hand_off: bool,
    /// The Lease for leader election; `None` for an instance that is alone.
    pub lease: Option<LeaseOptions>,
    /// Maximum number of pods in one call of the engine.
    pub max_batch: usize,
    /// Maximum number of concurrent bindings; below it the number adapts to what the API server takes.
    pub bind_concurrency: usize,
    /// Limit on the rate of bindings; `None` for as many as the API server accepts.
    pub bind_rate: Option<BindRate>,
    /// How long claims may take to be bound before the pod is placed anew (`bindTimeoutSeconds` of VolumeBinding).
    pub volume_bind_timeout: Duration,
    /// How long devices may take to be ready before the pod is placed anew (`bindingTimeout` of DynamicResources).
    pub device_bind_timeout: Duration,
    /// How long a nomination of the hand-off mode lasts before the pod is decided anew.
    pub nomination_timeout: Duration,
    /// Time limit for the work under way when the scheduler stops.
    pub stop_timeout: Duration,
    /// Readable name of this process, for events.
    pub instance: String,
}

/// A limit on the rate of bindings.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BindRate {
    /// Bindings per second, on average; greater than 0.
    pub per_second: f64,
    /// Bindings at once, after a pause; at least 1.
    pub burst: u32,
}

impl Default for SchedulerOptions {
    /// kube-scheduler's values where it has the same options; no Lease, no limit on the rate.
    fn default() -> SchedulerOptions {
        SchedulerOptions {
            queue: QueueOptions::default(),
            groups: GroupKeys::default(),
            hand_off: false,
            lease: None,
            max_batch: 1_024,
            bind_concurrency: 512,
            bind_rate: None,
            volume_bind_timeout: Duration::from_secs(600),
            device_bind_timeout: Duration::from_secs(600),
            nomination_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(10),
            instance: "berth".to_owned(),
        }
    }
}
