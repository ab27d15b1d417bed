//! Context of a call: its caller and deadline, besides the request.

use super::access::Access;
use super::deadline::Deadline;

/// Header in which a caller names a request, so that a retry of it is recognised.
pub(crate) const REQUEST_ID: &str = "berth-request-id";

/// The caller of a call, and the time when the call has to end.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// The caller's rights.
    pub(crate) access: Access,
    /// The caller's deadline.
    pub(crate) deadline: Deadline,
}

impl CallContext {
    /// The context that the transport put into the extensions of a request.
    pub(crate) fn of(extensions: &http::Extensions) -> CallContext {
        CallContext { access: Access::of(extensions), deadline: Deadline::of(extensions) }
    }
}

#[cfg(test)]
impl CallContext {
    /// Context of a caller with all rights and without a deadline.
    pub(crate) fn open() -> CallContext {
        CallContext { access: Access::open(), deadline: Deadline(None) }
    }
}
