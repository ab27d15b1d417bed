//! Scheduling gates, binding and identity of pods (group `gates`).
//!
//! A pod is bound at most once and runs on that node or nowhere (L-GATE-6). Pods are identified by UID: a replacement
//! is another pod, even under the same name (L-GATE-7).

mod binding;
mod incarnation;
mod readiness;
mod toleration;
mod update;

pub use binding::{BindRefusal, bind, bind_refusal};
pub use incarnation::{create_pod, same_incarnation};
pub use readiness::{SCHEDULING_GATED, gates, is_schedulable, scheduling_readiness};
pub use toleration::check_toleration_update;
pub use update::{GateRefusal, check_gate_update};
