//! Channel: a connection to a server, with the caller's token on each of its calls.

use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::transport::channel::ResponseFuture;

/// Cheap to clone: clones share the connection.
#[derive(Debug, Clone)]
pub struct Channel {
    wire: tonic::transport::Channel,
    /// Marked as sensitive: no `Debug` shows it, and no header compression remembers it.
    authorization: Option<HeaderValue>,
}

impl Channel {
    pub(super) fn new(
        wire: tonic::transport::Channel,
        authorization: Option<HeaderValue>,
    ) -> Channel {
        Channel { wire, authorization }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.wire.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> ResponseFuture {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.wire.call(request)
    }
}
