//! Who may remove a pod, who replaces it, and what keeps a namespace from going (group `deletion-authority`).
//!
//! Ending a pod is everybody's to ask for; taking its object away, and with it its claim to its name, is the node agent's
//! alone, because it alone sees the processes end (L-DEL-1). Everything else that removes needs an entitlement of its own. An
//! administrator can always get there by hand: by acknowledged force, by deleting the node object or by the out-of-service
//! taint (L-DEL-19). The lock on the names of stateful pods is in `identity`.

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
