//! Turn: whose it is on an HTTP/1.1 connection. While it is the peer's, and once it has begun, a request's head has to come soon;
//! hyper has one time for that and for the pause before it, which may be long.

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

/// Counts turns: at even numbers it is the peer's, at odd ones the server's. Clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<AtomicU64>);

impl Turn {
    /// The server's turn begins: a head is there.
    pub(super) fn take(&self) -> Taken {
        self.0.fetch_add(1, Ordering::Relaxed);
        Taken(self.clone())
    }

    /// Its number, while it is the peer's.
    fn of_peer(&self) -> Option<u64> {
        let number = self.0.load(Ordering::Relaxed);
        number.is_multiple_of(2).then_some(number)
    }
}

/// The server's turn, which ends with this.
#[derive(Debug)]
pub(super) struct Taken(Turn);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The body of an answer. With it the server's turn ends.
pub(super) struct Answer {
    body: Body,
    _taken: Taken,
}

impl Answer {
    pub(super) fn new(body: Body, taken: Taken) -> Answer {
        Answer { body, _taken: taken }
    }
}

impl HttpBody for Answer {
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
pub(super) struct Taking<S> {
    stream: S,
    turn: Turn,
    patience: Duration,
    /// For the head of this turn.
    until: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<S> Taking<S> {
    /// The first head has to come within `patience` from now on.
    pub(super) fn new(stream: S, turn: Turn, patience: Duration) -> Taking<S> {
        Taking { stream, turn, patience, until: Some((0, Box::pin(sleep(patience)))) }
    }

    fn poll_head(&mut self, context: &mut Context<'_>, has_read: bool) -> Poll<io::Result<()>> {
        let turn = self.turn.of_peer();
        if self.until.as_ref().is_some_and(|(of, _)| Some(*of) != turn) {
            self.until = None;
        }
        let Some(turn) = turn else { return Poll::Pending };
        if has_read {
            let patience = self.patience;
            self.until.get_or_insert_with(|| (turn, Box::pin(sleep(patience))));
            return Poll::Pending;
        }
        let Some((_, until)) = &mut self.until else { return Poll::Pending };
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "a head took too long")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taking<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Taking<S> {
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
        let mut stream = Taking::new(stream, Turn::default(), PATIENCE);
        assert_eq!(error_of(stream.read_u8()).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_head_that_has_begun_has_to_come_to_its_end() {
        let (mut peer, stream) = duplex(64);
        let turn = Turn::default();
        let mut stream = Taking::new(stream, turn.clone(), PATIENCE);
        peer.write_all(b"ab").await.unwrap();
        stream.read_u8().await.unwrap();
        drop(turn.take());
        // The second turn: what is read of it starts its time.
        stream.read_u8().await.unwrap();
        assert_eq!(error_of(stream.read_u8()).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn between_requests_and_during_one_there_is_time() {
        let (mut peer, stream) = duplex(64);
        let turn = Turn::default();
        let mut stream = Taking::new(stream, turn.clone(), PATIENCE);
        peer.write_all(b"a").await.unwrap();
        stream.read_u8().await.unwrap();
        for taken in [Some(turn.take()), None] {
            // Far longer than patience: neither the server's turn nor the pause after it ends by itself.
            let waiting = tokio::time::timeout(PATIENCE * 10, stream.read_u8());
            assert!(waiting.await.is_err(), "{taken:?}");
        }
    }
}
