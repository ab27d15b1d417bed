//! Facts of a pod beyond its object that its phase depends on.

use crate::lifecycle::vocabulary::ConditionStatus;

/// Facts of a pod beyond its object. The default is an ordinary pod on a ready node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PhaseFacts<'a> {
    /// Whether every process has stopped and none will be restarted (L-PHASE-6).
    pub pod_is_terminal: bool,
    /// Whether an app container has been started in the current sandbox.
    pub regular_container_started: bool,
    /// Whether the pod comes from a file on the node, not from the API.
    pub static_pod: bool,
    /// Whether this is the last step before the object is removed (L-PHASE-12).
    pub finalize: bool,
    /// The eviction order for the pod, if any (L-PHASE-10).
    pub evict: Option<Eviction<'a>>,
    /// Whether a process of the pod may be running (L-PHASE-11).
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

/// An order to evict a pod. Reasons are passed through: `Evicted`, `DeadlineExceeded`, `Preempting`, `NodeShutdown`,
/// `OutOfcpu`, Berth's own `NodeDiskFailed` for a lost disk (L-NODE-22) and others (L-PHASE-10).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Eviction<'a> {
    /// Reason; never empty.
    pub reason: &'a str,
    /// Message for people; may be empty.
    pub message: &'a str,
}
