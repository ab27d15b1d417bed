//! [`Channel`]: a connection to a server that adds the caller's token to each call.

use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::transport::channel::ResponseFuture;

/// One connection with the `authorization` header of its calls. Cheap to clone: clones share the connection.
#[derive(Debug, Clone)]
pub struct Channel {
    wire: tonic::transport::Channel,
    /// Header value marked as sensitive: `Debug` does not show it, and header compression does not keep it.
    authorization: Option<HeaderValue>,
}

impl Channel {
    pub(crate) fn new(
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
