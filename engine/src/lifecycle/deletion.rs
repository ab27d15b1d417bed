//! Deletion authority: who may remove a pod, who replaces it, and which pods block a namespace (group
//! `deletion-authority`).
//!
//! Every actor may request a graceful deletion. Only the node agent may remove the object, and with it the pod's claim
//! to its name, because only the node agent sees the processes end (L-DEL-1). Any other removal needs an entitlement.
//! An administrator can always remove a pod by hand: by acknowledged force, by deleting the node object or by the
//! out-of-service taint (L-DEL-19). The lock on the names of stateful pods is in `identity`.

mod authority;
mod entitlement;
mod reason;
mod namespace;
mod replacement;

pub use authority::{
    ActorKind, Removal, RemovalEffect, RemovalWarning, authorize, authorize_removal,
};
pub(super) use entitlement::{
    NodeAbsence, NodeObject, QUARANTINE_SECONDS, collector_entitlement, place_entitlement,
};
pub use namespace::namespace_deletion;
pub use reason::RemovalReason;
pub use replacement::{Replacement, ReplacementReason, replacement, replacement_decision};
