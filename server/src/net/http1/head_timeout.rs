//! Time limit for the head of a request on an HTTP/1.1 connection. The limit starts with the head's first byte; hyper
//! has only one limit for that and for the pause before it, which may be long.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Counts the halves of exchanges on a connection: even while the peer sends a request or pauses, odd while the server
/// responds. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange(Arc<AtomicU64>);

impl Exchange {
    /// Begins a response, once a request's head has come.
    pub(super) fn begin_response(&self) -> Responding {
        self.0.fetch_add(1, Ordering::Relaxed);
        Responding(self.clone())
    }

    /// The count, unless the server is responding.
    fn request_number(&self) -> Option<u64> {
        let number = self.0.load(Ordering::Relaxed);
        number.is_multiple_of(2).then_some(number)
    }
}

/// A response under way, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Responding(Exchange);

impl Drop for Responding {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Body of a response; dropping it ends the response.
pub(super) struct ResponseBody {
    body: Body,
    _responding: Responding,
}

impl ResponseBody {
    pub(super) fn new(body: Body, responding: Responding) -> ResponseBody {
        ResponseBody { body, _responding: responding }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that ends when a head takes too long.
pub(super) struct HeadTimeout<S> {
    stream: S,
    exchange: Exchange,
    patience: Duration,
    /// Time limit for the head, with the count for which it holds.
    until: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<S> HeadTimeout<S> {
    /// Creates a connection whose first head has to come within `patience` from now on.
    pub(super) fn new(stream: S, exchange: Exchange, patience: Duration) -> HeadTimeout<S> {
        HeadTimeout { stream, exchange, patience, until: Some((0, Box::pin(sleep(patience)))) }
    }

    fn poll_head(&mut self, context: &mut Context<'_>, has_read: bool) -> Poll<io::Result<()>> {
        let number = self.exchange.request_number();
        if self.until.as_ref().is_some_and(|(of, _)| Some(*of) != number) {
            self.until = None;
        }
        let Some(number) = number else { return Poll::Pending };
        if has_read {
            let patience = self.patience;
            self.until.get_or_insert_with(|| (number, Box::pin(sleep(patience))));
            return Poll::Pending;
        }
        let Some((_, until)) = &mut self.until else { return Poll::Pending };
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "a head took too long")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.poll_head(context, outcome.is_ready()) {
            Poll::Ready(given_up) => Poll::Ready(given_up),
            Poll::Pending => outcome,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(30);

    async fn error_of(reading: impl Future<Output = io::Result<u8>>) -> io::ErrorKind {
        reading.await.unwrap_err().kind()
    }

    #[tokio::test]
    async fn the_first_head_has_to_come() {
        let (_peer, stream) = duplex(64);
        let mut stream = HeadTimeout::new(stream, Exchange::default(), PATIENCE);
        assert_eq!(error_of(stream.read_u8()).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_head_that_has_begun_has_to_end() {
        let (mut peer, stream) = duplex(64);
        let exchange = Exchange::default();
        let mut stream = HeadTimeout::new(stream, exchange.clone(), PATIENCE);
        peer.write_all(b"ab").await.unwrap();
        stream.read_u8().await.unwrap();
        drop(exchange.begin_response());
        // The second request: its time starts with the first byte that is read.
        stream.read_u8().await.unwrap();
        assert_eq!(error_of(stream.read_u8()).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn responses_and_pauses_between_requests_have_no_limit() {
        let (mut peer, stream) = duplex(64);
        let exchange = Exchange::default();
        let mut stream = HeadTimeout::new(stream, exchange.clone(), PATIENCE);
        peer.write_all(b"a").await.unwrap();
        stream.read_u8().await.unwrap();
        for responding in [Some(exchange.begin_response()), None] {
            // Far longer than the limit: neither a response nor the pause after it has a limit here.
            let waiting = tokio::time::timeout(PATIENCE * 10, stream.read_u8());
            assert!(waiting.await.is_err(), "{responding:?}");
        }
    }
}
