//! Idempotency: carries out a named request once, and repeats its response. Works on the bytes of messages, outside of
//! the handlers, and costs nothing for requests without a name.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame};
use prost::bytes::{Bytes, BytesMut};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service as _;

use crate::service::response_cache::{self, Claim, RequestName, ResponseCache};
use crate::service::{Assumptions, CallError, Delivery, Supposed, UntilDelivered};

/// Header that marks a repeated response; its value is `true`.
pub(crate) const REPLAYED: &str = "berth-replayed";
/// Length of the prefix of a message: its length and a flag.
pub(super) const PREFIX_BYTES: usize = 5;

/// Carries out a named request, unless that was done before. Where reservations are kept, the response is kept with them
/// before anybody gets it, if the method always `changes` something or the request has.
///
/// # Errors
/// [`CallError::RequestIdReused`], [`CallError::MessageTooLarge`], [`CallError::Undecodable`] if the request is truncated,
/// and [`CallError::NotGranted`] if the response cannot be kept.
pub(super) async fn answer_once(
    (responses, assumptions): (&Arc<ResponseCache>, &Assumptions),
    (name, changes): (RequestName, bool),
    (mut routes, request): (Routes, Request<Body>),
    delivery: Delivery,
    max_message_bytes: usize,
) -> Result<Answered, CallError> {
    let (parts, body) = request.into_parts();
    let message = collect(body, max_message_bytes + PREFIX_BYTES).await?;
    // What a request supposes is a part of it, though not of its message.
    let supposed = parts.extensions.get::<Supposed>().and_then(Supposed::fork);
    let supposed = supposed.map(|fork| fork.digest.clone()).unwrap_or_default();
    let in_progress = match responses.claim(name, [&message.data, &supposed]).await? {
        Claim::First(in_progress) => Arc::new(in_progress),
        Claim::Again(data) => {
            return Ok(Answered { response: replayed(data), is_replayed: true });
        }
    };
    // Dropped before `in_progress`: others with the same name wait until everything is undone.
    let undelivered = UntilDelivered(delivery);
    let data = (!message.data.is_empty()).then_some(message.data);
    let body = Body::new(Whole { data, trailers: None });
    let answering = routes.call(Request::from_parts(parts, body));
    let response = match response_cache::in_scope_of(in_progress.clone(), answering).await {
        Ok(response) => response,
        Err(error) => match error {},
    };
    let (parts, body) = response.into_parts();
    let message = collect(body, usize::MAX).await?;
    let is_ok = |headers: &HeaderMap| headers.get("grpc-status").is_some_and(|code| code == "0");
    if message.trailers.as_ref().is_some_and(is_ok) {
        if changes || undelivered.0.has_changes() {
            assumptions.answer(&in_progress, &message.data).await?;
        }
        in_progress.remember(&message.data);
        // From now on the response can be fetched by its name.
        undelivered.0.delivered();
    }
    drop(undelivered);
    let Message { data, trailers } = message;
    let data = (!data.is_empty()).then_some(data);
    let response = Response::from_parts(parts, Body::new(Whole { data, trailers }));
    Ok(Answered { response, is_replayed: false })
}

/// A unary response with remembered data, marked as repeated.
fn replayed(data: Bytes) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let mut response =
        Response::new(Body::new(Whole { data: Some(data), trailers: Some(trailers) }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// A response, and whether it is a repeated one.
pub(super) struct Answered {
    pub(super) response: Response<Body>,
    pub(super) is_replayed: bool,
}

/// A whole request or response.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub(super) data: Bytes,
    trailers: Option<HeaderMap>,
}

/// Collects a whole body.
pub(super) async fn collect(mut body: Body, max_bytes: usize) -> Result<Message, CallError> {
    let (mut message, mut more) = (Message::default(), BytesMut::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| CallError::Undecodable {
            reason: format!("it did not arrive whole: {}", error.message()),
        })?;
        match frame.into_data() {
            Ok(data) if message.data.is_empty() && more.is_empty() => message.data = data,
            Ok(data) => {
                more.extend_from_slice(&std::mem::take(&mut message.data));
                more.extend_from_slice(&data);
            }
            Err(frame) => message.trailers = frame.into_trailers().ok(),
        }
        if message.data.len() + more.len() > max_bytes {
            return Err(CallError::MessageTooLarge { limit: max_bytes - PREFIX_BYTES });
        }
    }
    if !more.is_empty() {
        message.data = more.freeze();
    }
    Ok(message)
}

/// A body that is complete in memory.
pub(super) struct Whole {
    pub(super) data: Option<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }
}
