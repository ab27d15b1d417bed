//! Bodies of calls that may be sent on: of a request of which a copy is kept, of one whose first message was looked at, and
//! of a response that is still to come.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;

use crate::service::CallError;

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

/// A body whose first frame was taken out before. A caller that is gone ends it, so that the other replica still answers
/// what it has got.
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
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Err(_)) => None,
            frame => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }
}

/// The body of a response that is still to come: its head does not wait for that, since some clients send nothing before
/// they have it.
pub(super) enum Coming {
    Awaited(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
    Here(Body),
    Over,
}

impl HttpBody for Coming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match &mut *self {
                Coming::Awaited(response) => {
                    let response = ready!(response.as_mut().poll(cx));
                    if response.headers().contains_key("grpc-status") {
                        // A response without messages has its status in its head.
                        *self = Coming::Over;
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers(response)))));
                    }
                    *self = Coming::Here(response.into_body());
                }
                Coming::Here(body) => return Pin::new(body).poll_frame(cx),
                Coming::Over => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Coming::Over)
    }
}

/// The body of another replica's response. If that replica is lost meanwhile, the status says so.
pub(super) struct Answer {
    pub(super) body: Body,
    /// What the caller is told then; `None` once it was.
    pub(super) lost: Option<CallError>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.lost.is_none() {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let lost = self.lost.take_if(|_| matches!(frame, Some(Err(_))));
        Poll::Ready(match lost {
            Some(lost) => Some(Ok(Frame::trailers(trailers(Status::from(lost).into_http())))),
            None => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.lost.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The trailers of a response that has its status in its head.
fn trailers(response: Response<Body>) -> HeaderMap {
    let mut headers = response.into_parts().0.headers;
    headers.remove(CONTENT_TYPE);
    headers
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};

    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_replica_that_is_lost_is_unavailable() {
        let frames = [Ok(Frame::data(Bytes::from("message"))), Err(Status::internal("reset"))];
        let body = Body::new(StreamBody::new(tokio_stream::iter(frames)));
        let lost = Some(CallError::NotCommitter { committer: None });
        let mut answer = Answer { body, lost };
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "message");
        let trailers = answer.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert!(trailers["grpc-status"] == "14" && answer.is_end_stream(), "{trailers:?}");
        assert!(answer.frame().await.is_none());
    }
    use crate::service::CallError;

    async fn next(body: &mut Body) -> Option<Frame<Bytes>> {
        poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose().unwrap()
    }

    #[tokio::test]
    async fn a_status_in_the_head_comes_in_the_trailers() {
        let refused = Status::from(CallError::Draining).into_http::<Body>();
        let mut body = Body::new(Coming::Awaited(Box::pin(ready(refused))));
        let trailers = next(&mut body).await.unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "14");
        assert!(!trailers.contains_key(CONTENT_TYPE) && next(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn messages_come_as_they_are() {
        let inner = http_body_util::Full::new(Bytes::from_static(b"message"));
        let inner = Body::new(inner.map_err(|never| match never {}));
        let mut body = Body::new(Coming::Awaited(Box::pin(ready(Response::new(inner)))));
        assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "message");
        assert!(next(&mut body).await.is_none());
    }
}
