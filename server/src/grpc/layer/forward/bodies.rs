//! Bodies of requests that may be sent on: one of which a copy is kept, and one whose first message was looked at.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;

/// A message that was kept while the handler had it.
#[derive(Clone, Default)]
pub(in super::super) struct Copy(Arc<Mutex<Vec<Bytes>>>);

impl Copy {
    pub(super) fn data(&self) -> Bytes {
        let frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &frames[..] {
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }
}

/// A body of which a copy is kept.
pub(super) struct Copying {
    pub(super) body: Body,
    pub(super) into: Copy,
    pub(super) is_over: bool,
}

impl HttpBody for Copying {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let mut into = self.into.0.lock().unwrap_or_else(PoisonError::into_inner);
                    into.push(data.clone());
                }
            }
            Some(Err(_)) | None => self.is_over = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body whose first frame was taken out before.
pub(super) struct Resumed {
    pub(super) first: Option<Frame<Bytes>>,
    pub(super) body: Body,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }
}
