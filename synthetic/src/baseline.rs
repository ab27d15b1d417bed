//! The nodes and pods of kube-scheduler's baseline, with the counts and formulas under which it was measured, and the
//! times that it took ([`kube_scheduler`]).

pub mod demand;
pub mod device;
pub mod kube_scheduler;
pub mod node;
pub mod object;
pub mod pod;
mod kind;

pub use kind::{N_NODES, Workload};
