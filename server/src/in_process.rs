//! In process: calls the services of a server without a socket, for programs that hold one and for harnesses. Calls
//! pass the same layers as over the network, from the first header on.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;

use axum::Router;
use axum::body::Bytes;
use http::{HeaderMap, Request};
use prost::bytes::{Buf as _, BufMut as _};
use tonic::body::Body;
use tonic_health::server::HealthReporter;
use tower_service::Service;

use crate::grpc::{self, CallService};
use crate::http::{self as http_port, Calls, TranslatedBody};
use crate::runtime::Server;

/// Maximum number of bytes of a response that are kept; the rest is dropped.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A server's services, callable in this process.
#[derive(Clone)]
pub struct InProcess {
    grpc: CallService,
    http: Router,
}

/// A complete response.
#[derive(Clone, Debug, Default)]
pub struct CollectedResponse {
    /// The HTTP status.
    pub status: u16,
    /// Headers, followed by trailers.
    pub headers: HeaderMap,
    /// The whole body; for gRPC its frames.
    pub body: Vec<u8>,
}

impl CollectedResponse {
    /// The `grpc-status`, if the response has one.
    #[must_use]
    pub fn grpc_status(&self) -> Option<i32> {
        self.headers.get("grpc-status")?.to_str().ok()?.parse().ok()
    }
}

impl InProcess {
    /// The services of a running server.
    ///
    /// # Errors
    /// If the built-in descriptors cannot be read, which a test rules out.
    pub fn of(server: &Server) -> Result<InProcess, tonic_reflection::server::Error> {
        let state = server.state();
        let routes = grpc::routes(state, HealthReporter::new())?;
        let grpc = CallService::new(routes, state.clone());
        let calls = Calls::new(grpc.clone());
        let http = http_port::router(state.clone(), server.extender().clone(), calls);
        Ok(InProcess { grpc, http })
    }

    /// Calls the method at `path`, for example `/berth.v1.PlacementService/Place`, with these messages, each without
    /// its frame.
    pub async fn call(&self, path: &str, messages: &[&[u8]]) -> CollectedResponse {
        let mut frames = Vec::new();
        for message in messages {
            // The frame's length has 32 bits; a longer message is cut and then refused like any broken one.
            let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
            frames.push(0);
            frames.extend_from_slice(&length.to_be_bytes());
            frames.extend_from_slice(message);
        }
        let body = Body::new(axum::body::Body::from(Bytes::from(frames)));
        let request = Request::post(path).header("content-type", "application/grpc").body(body);
        let Ok(request) = request else { return CollectedResponse::default() };
        let mut service = self.grpc.clone();
        match service.call(request).await {
            Ok(response) => collected(response).await,
            Err(never) => match never {},
        }
    }

    /// Translates a body that is posted to a path below `/v1`, without calling anything.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn translated(
        path: &str,
        query: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<TranslatedBody, String> {
        http_port::translated(path, query, content_type, body)
    }

    /// Posts a body to a path of the HTTP port, for example `/extender/filter`.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> CollectedResponse {
        self.post_as(path, "application/json", body).await
    }

    /// Posts a body of a content type to a path of the HTTP port, for example `/v1/place?mode=assume`.
    pub async fn post_as(
        &self,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> CollectedResponse {
        let body = axum::body::Body::from(body);
        let request = Request::post(path).header("content-type", content_type).body(body);
        let Ok(request) = request else {
            return CollectedResponse::default();
        };
        let mut router = self.http.clone();
        let response: Result<_, Infallible> = router.call(request).await;
        match response {
            Ok(response) => collected(response).await,
            Err(never) => match never {},
        }
    }
}

async fn collected<B: http_body::Body>(response: http::Response<B>) -> CollectedResponse {
    let (parts, body) = response.into_parts();
    let mut answer = CollectedResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: Vec::new(),
    };
    let mut body = pin!(body);
    // If the response is truncated, the part received so far is kept.
    while let Some(Ok(frame)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.into_data() {
            Ok(data) if answer.body.len() + data.remaining() > MAX_ANSWER_BYTES => break,
            Ok(data) => answer.body.put(data),
            Err(frame) => answer.headers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    answer
}
