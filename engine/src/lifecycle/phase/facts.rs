//! What is known of a pod beyond its object, as far as its phase depends on it.

use crate::lifecycle::vocabulary::ConditionStatus;

/// What is known of a pod beyond its object. The default: nothing special, on a node that is ready.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PhaseFacts<'a> {
    /// Every process has stopped and none will be restarted (L-PHASE-6).
    pub pod_is_terminal: bool,
    /// An app container has been started in the current sandbox.
    pub regular_container_started: bool,
    /// The pod comes from a file on the node, not from the API.
    pub static_pod: bool,
    /// This is the last step before the object is removed (L-PHASE-12).
    pub finalize: bool,
    /// Set when the pod has been ordered off (L-PHASE-10).
    pub evict: Option<Eviction<'a>>,
    /// A process of the pod may be running (L-PHASE-11).
    pub could_have_running_containers: bool,
    /// The node's `Ready` condition; `Unknown` when contact is lost (L-PHASE-13).
    pub node_ready: ConditionStatus,
}

impl Default for PhaseFacts<'_> {
    fn default() -> Self {
        PhaseFacts {
            pod_is_terminal: false,
            regular_container_started: false,
            static_pod: false,
            finalize: false,
            evict: None,
            could_have_running_containers: false,
            node_ready: ConditionStatus::True,
        }
    }
}

/// Why a pod has been ordered off. Reasons are passed through: `Evicted`, `DeadlineExceeded`, `Preempting`, `NodeShutdown`,
/// `OutOfcpu`, Berth's own `NodeDiskFailed` for a lost disk (L-NODE-22) and others (L-PHASE-10).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Eviction<'a> {
    /// Never empty.
    pub reason: &'a str,
    /// For people; may be empty.
    pub message: &'a str,
}
