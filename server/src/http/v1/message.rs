//! Messages inside of the server: a request whose body is read and translated only when its handler asks for it, so
//! that a refused call costs no more than its head; and a response that is collected.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use prost::bytes::{BufMut as _, BytesMut};
use tonic::body::Body;
use tonic::{Code, Status};

/// Length of the prefix of a message: a flag and its length.
const PREFIX_BYTES: usize = 5;

type Reading<E> = Pin<Box<dyn Future<Output = Result<Vec<u8>, E>> + Send>>;

/// A request body that is one message.
pub(super) struct OneMessage<E> {
    reading: Option<Reading<E>>,
    failure: Arc<OnceLock<E>>,
    to_status: fn(&E) -> Status,
}

impl<E> OneMessage<E> {
    /// A body that runs `reading` when it is polled. If that fails, `failure` gets the error, and the call ends with
    /// the status of it.
    pub(super) fn new(
        reading: impl Future<Output = Result<Vec<u8>, E>> + Send + 'static,
        failure: Arc<OnceLock<E>>,
        to_status: fn(&E) -> Status,
    ) -> OneMessage<E> {
        OneMessage { reading: Some(Box::pin(reading)), failure, to_status }
    }
}

impl<E: 'static> HttpBody for OneMessage<E> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        let framed = match read {
            Ok(message) => framed(&message),
            Err(error) => {
                let status = (self.to_status)(&error);
                // Nobody else sets it.
                drop(self.failure.set(error));
                Err(status)
            }
        };
        Poll::Ready(Some(framed.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.reading.is_none()
    }
}

/// The message behind its prefix.
pub(super) fn framed(message: &[u8]) -> Result<Bytes, Status> {
    let length = u32::try_from(message.len())
        .map_err(|_| Status::resource_exhausted("the message is larger than 4 GiB"))?;
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(length);
    frame.put_slice(message);
    Ok(frame.freeze())
}

/// Collects the message of a unary response.
///
/// # Errors
/// The status of a call that failed.
pub(super) async fn collect(headers: &HeaderMap, mut body: Body) -> Result<Bytes, Status> {
    if let Some(status) = Status::from_header_map(headers) {
        return Err(status);
    }
    let (mut frame, mut outcome) = (BytesMut::new(), None);
    while let Some(part) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match part?.into_data() {
            Ok(data) => frame.put(data),
            Err(part) => {
                outcome = part.into_trailers().ok().as_ref().and_then(Status::from_header_map);
            }
        }
    }
    match outcome {
        Some(status) if status.code() != Code::Ok => Err(status),
        Some(_) if frame.len() >= PREFIX_BYTES => Ok(frame.freeze().slice(PREFIX_BYTES..)),
        Some(_) | None => Err(Status::internal("internal error: the call could not be completed")),
    }
}
