//! Termination of a pod: delete requests, grace periods, the steps on the node, endpoints and replica counts (group
//! `termination`).
//!
//! Two sides take part. The API server marks the object, and from then on its grace period only shrinks ([`delete`]).
//! The node agent derives the period that counts on the node ([`node_grace`]) and runs hooks, signals and kills by it
//! ([`plan`]). A marked pod is displayed as `Terminating` unless its node is lost (L-TERM-24), which `partition`
//! decides.

mod delete;
mod endpoint;
mod grace;
mod interruption;
mod object;
mod plan;
mod replicas;
mod steps;

pub use delete::{DeleteOutcome, Deletion, Mark, apply_delete, delete, mark};
pub(crate) use delete::{own_period, period};
pub use endpoint::{EndpointState, endpoint_conditions, endpoint_state};
pub use grace::{
    EvictionThreshold, KillReason, NodeGrace, container_kill_grace, effective_node_grace,
    eviction_override, kill_grace, node_grace,
};
pub use interruption::{
    RestartedStop, restart_during_termination, restarted, shorten_during_termination, shortened,
};
pub(crate) use object::kill_deadline;
pub use object::{Assumed, stopping_of};
pub use plan::{Period, PreStop, Stop, Stopping, plan};
pub(crate) use replicas::replicas;
pub use replicas::{count_replicas, is_active, n_active};
pub use steps::{StepAction, termination_plan};
