//! Context of a call: its caller and deadline, besides the request.

use std::sync::Arc;

use berth_engine::Cluster;

use super::access::Access;
use super::deadline::Deadline;
use super::delivery::Delivery;
use super::error::CallError;
use super::held_bytes::HeldBytes;
use super::state::State;
use super::supposed::Supposed;
use super::target::Target;

/// Header in which a caller names a request, so that a retry of it is recognised.
pub(crate) const REQUEST_ID: &str = "berth-request-id";

/// The caller of a call, and the time when the call has to end.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// The caller's rights.
    pub(crate) access: Access,
    /// The caller's deadline.
    pub(crate) deadline: Deadline,
    /// Where changes are kept until the response is delivered.
    pub(crate) delivery: Delivery,
    /// The memory of the message.
    pub(crate) held: HeldBytes,
    /// The fork to decide on, if the request supposes objects beside those of its cluster.
    pub(crate) supposed: Option<Arc<Cluster>>,
}

impl CallContext {
    /// The context that the transport put into the extensions of a request.
    pub(crate) fn of(extensions: &http::Extensions) -> CallContext {
        CallContext {
            access: Access::of(extensions),
            deadline: Deadline::of(extensions),
            delivery: extensions.get::<Delivery>().cloned().unwrap_or_default(),
            held: HeldBytes::of(extensions),
            supposed: extensions
                .get::<Supposed>()
                .and_then(|supposed| Some(supposed.fork()?.cluster.clone())),
        }
    }

    /// The target of the call: the fork with what its request supposes, or the cluster of the session, or the live one.
    ///
    /// # Errors
    /// The errors of [`State::target`].
    pub(crate) fn target(&self, state: &State, session_id: &str) -> Result<Target, CallError> {
        let target = state.target(&self.access, session_id)?;
        Ok(self.supposed.clone().map_or(target, Target::Supposed))
    }
}

#[cfg(test)]
impl CallContext {
    /// Context of a caller with all rights and without a deadline.
    pub(crate) fn open() -> CallContext {
        let (access, deadline) = (Access::open(), Deadline(None));
        CallContext {
            access,
            deadline,
            delivery: Delivery::default(),
            held: HeldBytes::default(),
            supposed: None,
        }
    }
}
