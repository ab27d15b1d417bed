//! Lifecycle decisions: the decision groups of `docs/spec/lifecycle.md`, one file for each group.
//!
//! Every decision is a function of its request: no clock, no cluster, no state between calls. Requests and responses
//! are the messages of `berth.v1.LifecycleService`, with the names and formats of Kubernetes' own objects; time is an
//! argument (`now`, L-GEN-2). A request that contradicts itself, or lacks a fact that a decision cannot do without, is
//! refused with a [`ModelError`](crate::ModelError) that names the field. Any other missing fact leads to the
//! conservative response (L-GEN-4).

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
pub mod container_end;
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
pub mod claim_release;
pub mod evaluation;
