//! Parts of a request: the context of its call, and its message.

use tonic::Request;

use crate::service::CallContext;

/// Splits a request into its context and its message.
pub(super) fn parts<T>(request: Request<T>) -> (CallContext, T) {
    let call = CallContext::of(request.extensions());
    (call, request.into_inner())
}
