//! Context of a call: its caller and deadline, besides the request.

use std::sync::Arc;

use berth_engine::Cluster;

use super::access::Access;
use super::deadline::Deadline;
use super::delivery::Delivery;
use super::supposed::Supposed;

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
            supposed: extensions
                .get::<Supposed>()
                .and_then(|supposed| Some(supposed.fork()?.cluster.clone())),
        }
    }
}

#[cfg(test)]
impl CallContext {
    /// Context of a caller with all rights and without a deadline.
    pub(crate) fn open() -> CallContext {
        let (access, deadline) = (Access::open(), Deadline(None));
        CallContext { access, deadline, delivery: Delivery::default(), supposed: None }
    }
}
