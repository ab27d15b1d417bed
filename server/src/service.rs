//! Handlers of Berth's services, independent of the transport.
//!
//! [`State`] is what all handlers share. Each service is a module of transport-free handlers: they take a request and
//! its [`CallContext`] and return a response or a [`CallError`]. gRPC, HTTP, the command line, the scheduler and the
//! fuzzers all call them.

pub(crate) mod placement;
pub(crate) mod admission;
pub(crate) mod preemption;
pub(crate) mod autoscaler;
pub(crate) mod cluster;
pub(crate) mod session;
pub(crate) mod lifecycle;
pub(crate) mod named;
pub(crate) mod watchers;

mod state;
mod fences;
mod force_deletion;
mod witness;
mod limits;
mod context;
mod credential;
pub(crate) mod readiness;
mod target;
mod supposed;
mod assumptions;
mod replicas;
mod timed_ledger;
mod decider;
mod delivery;
pub(crate) mod unheard;
mod session_table;
pub(crate) mod recorder;
pub(crate) mod response_cache;
mod pool;

pub(crate) mod convert;
mod sent_pod;
pub(crate) mod undecodable;
mod unset;
pub mod label_selector;

pub(crate) mod method;
mod held_bytes;
mod access;
mod deadline;
mod error;
#[cfg(test)]
pub(crate) mod fixture;

pub(crate) use access::{Access, SimpleRequest};
pub use assumptions::RestoreError;
pub use assumptions::error::AssumptionError;
pub(crate) use assumptions::{
    Assumptions, Follower, HeldPod, Holder, Kept, PREFIXES, Requests, Written,
};
pub(crate) use context::{CallContext, CallParts, MIN_REVISION, REQUEST_ID, REVISION, STALENESS};
pub(crate) use credential::{Credential, Revoked};
pub(crate) use deadline::{Cancel, CancelOnDrop, Deadline, grpc_timeout};
pub(crate) use decider::Decider;
pub(crate) use delivery::{AssumeTerms, Delivery, Guarded, Held, Undelivered, UntilDelivered};
pub(crate) use error::CallError;
pub use force_deletion::ForceDeletion;
pub(crate) use held_bytes::HeldBytes;
pub use limits::Limits;
pub(crate) use pool::Pool;
pub use recorder::JournalOptions;
pub(crate) use recorder::{Header, Journal, Recorder};
pub(crate) use replicas::Replicas;
pub(crate) use sent_pod::SentPod;
pub use session_table::SessionLimits;
pub(crate) use state::State;
pub(crate) use supposed::{Fork, Supposed};
pub(crate) use target::Target;
