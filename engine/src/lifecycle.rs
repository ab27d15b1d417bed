//! What happens next in the life of a pod: the decision groups of the lifecycle specification, a file a group.
//!
//! Every decision is a function of its request: no clock, no cluster, nothing remembered. The requests and answers are the
//! messages of `berth.v1.LifecycleService`, whose fields have the names and forms of Kubernetes' own objects; time is an argument
//! (`now`, L-GEN-2). A request that contradicts itself, or lacks a fact without which nothing can be decided, is refused with a
//! [`ModelError`](crate::ModelError) that names the field; a missing fact that only makes a difference leads to the conservative
//! answer (L-GEN-4).

mod word;
pub mod vocabulary;
mod reading;
mod listed;

pub mod phase;
pub mod condition;
pub mod container_state;
pub mod restart;
pub mod probe;
pub mod termination;
pub mod deletion;
pub mod identity;
pub mod partition;
pub mod fence;
pub mod attachment;
pub mod node_failure;
pub mod pod_gc;
pub mod pressure;
pub mod priority;
pub mod gate;
pub mod disruption;
pub mod evaluation;
