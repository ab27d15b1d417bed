//! Body of a response on its way. Reads the status from its trailers, splits large frames into pieces, notes when data
//! waits for its reader, and ends an endless stream when the server drains.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::Bytes;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;

use super::piece::Piece;
use crate::admission;
use crate::grpc::call::Call;
use crate::net::ResponseSlot;
use crate::service::CallError;
use crate::shutdown;

/// Delay before an endless stream ends, long enough for a health watcher to receive `NOT_SERVING` first.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Maximum number of bytes that the transport gets at a time: it keeps them until the client reads them, and for how
/// long cannot be seen. One HTTP/2 frame of the default size holds as many.
const PIECE_BYTES: usize = 16 << 10;

/// Size up to which data of a response is not counted.
const LARGE: usize = 64 << 10;

type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response body that keeps its call open until it has been sent.
pub(crate) struct CallBody {
    body: Body,
    /// Rest of a frame that is sent in pieces.
    rest: Bytes,
    /// Memory of the frame that is being sent.
    memory: Option<admission::Bytes>,
    call: Call,
    /// Slot that records how long the response waits for its reader, once there was data to read.
    slot: Option<ResponseSlot>,
    end: Option<End>,
}

impl CallBody {
    pub(super) fn new(body: Body, call: Call) -> CallBody {
        // Endless streams of the standard services would hold up a drain until its grace period is over.
        let is_endless = !call.is_over && call.method.is_standard();
        let end = is_endless.then(|| drained(call.state.draining.clone()));
        CallBody { body, rest: Bytes::new(), memory: None, call, slot: None, end }
    }

    /// Takes the next piece of the rest. The last piece of a message guards what was assumed for it.
    fn piece(&mut self) -> Frame<Piece> {
        let n_bytes = self.rest.len().min(PIECE_BYTES);
        let mut piece = Piece::new(self.rest.split_to(n_bytes));
        if self.rest.is_empty() {
            self.memory = None;
            piece = piece.guarding(self.call.delivery.take(), self.call.peer.as_ref());
        }
        let Call { state, peer, .. } = &self.call;
        if self.slot.is_none() {
            self.slot = state.slow_readers.slot(peer.as_ref());
        }
        if let Some((slot, peer)) = self.slot.as_ref().zip(peer.as_ref()) {
            slot.waits(&state.slow_readers, peer);
        }
        Frame::data(piece)
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        if let Some((slot, peer)) = self.slot.as_ref().zip(self.call.peer.as_ref()) {
            slot.free(peer);
        }
    }
}

fn drained(draining: watch::Receiver<bool>) -> End {
    Box::pin(async move {
        shutdown::requested(draining).await;
        tokio::time::sleep(LAST_WORDS).await;
    })
}

impl HttpBody for CallBody {
    type Data = Piece;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        // The transport polls again only after it has passed on the previous data.
        if let Some((slot, peer)) = self.slot.as_ref().zip(self.call.peer.as_ref()) {
            slot.is_read(peer);
        }
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        if let Some(revoked) = &mut self.call.revoked
            && let Poll::Ready(error) = revoked.as_mut().poll(cx)
        {
            self.call.revoked = None;
            return Poll::Ready(Some(Ok(self.end_with(error.into()))));
        }
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Pending => return self.poll_end(cx),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => return Poll::Ready(None),
        };
        match frame.into_data() {
            Ok(data) => match self.hold(data.len()) {
                Ok(()) => {
                    self.rest = data;
                    Poll::Ready(Some(Ok(self.piece())))
                }
                Err(error) => Poll::Ready(Some(Ok(self.end_with(error)))),
            },
            Err(frame) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.note_status(trailers);
                }
                Poll::Ready(Some(Ok(frame.map_data(Piece::new))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

impl CallBody {
    /// Checks whether the stream has to end while it has no data.
    fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, <Body as HttpBody>::Error>>> {
        let Some(end) = &mut self.end else { return Poll::Pending };
        ready!(end.as_mut().poll(cx));
        self.end = None;
        Poll::Ready(Some(Ok(self.end_with(CallError::Draining))))
    }

    /// Takes the memory of data that waits for its reader from the budget.
    fn hold(&mut self, n_bytes: usize) -> Result<(), CallError> {
        if n_bytes > LARGE {
            self.memory = Some(self.call.state.bytes.take(&self.call.holder(), n_bytes)?);
        }
        Ok(())
    }

    /// The trailers with which the response ends here.
    fn end_with(&mut self, error: CallError) -> Frame<Piece> {
        self.body = Body::empty();
        // What was assumed for it is given back.
        drop(self.call.delivery.take());
        let trailers = Status::from(error).into_http::<Body>().into_parts().0.headers;
        self.call.note_status(&trailers);
        Frame::trailers(trailers)
    }
}
