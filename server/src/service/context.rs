//! Context of a call: its caller and deadline, besides the request.

use std::sync::Arc;

use berth_engine::Cluster;
use http::HeaderName;

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

/// Header of a response, where servers share a ledger: the last commit whose reservations it has counted.
pub(crate) const REVISION: HeaderName = HeaderName::from_static("berth-ledger-revision");
/// Header of a response, likewise: how many milliseconds ago all commits were counted for certain.
pub(crate) const STALENESS: HeaderName = HeaderName::from_static("berth-ledger-staleness-ms");
/// Header of a request: the commit that its response has to count.
pub(crate) const MIN_REVISION: HeaderName = HeaderName::from_static("berth-min-ledger-revision");

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

/// What the layer around every call gives to its handler besides the caller: in one piece, since each costs an allocation.
#[derive(Clone, Default)]
pub(crate) struct CallParts {
    pub(crate) deadline: Deadline,
    pub(crate) delivery: Delivery,
    pub(crate) held: HeldBytes,
}

impl CallParts {
    /// What the layer put into the extensions of a request.
    pub(crate) fn of(extensions: &http::Extensions) -> CallParts {
        extensions.get::<CallParts>().cloned().unwrap_or_default()
    }
}

impl CallContext {
    /// The context that the transport put into the extensions of a request.
    pub(crate) fn of(extensions: &http::Extensions) -> CallContext {
        let CallParts { deadline, delivery, held } = CallParts::of(extensions);
        CallContext {
            access: Access::of(extensions),
            deadline,
            delivery,
            held,
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
