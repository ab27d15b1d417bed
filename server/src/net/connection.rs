//! Connection: an accepted connection, plain or TLS, with its peer and its slot among those that may be open.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use super::frames::{Flooded, FrameMeter};
use super::linger::Lingering;
use super::open_connections::Listed;
use super::peer::Peer;
use crate::clock;
use crate::telemetry::{Cut, PortCounts};

/// An accepted connection.
pub(crate) struct Connection {
    stream: Stream,
    peer: Arc<Peer>,
    opening: Option<Opening>,
    /// Counts the frames of HTTP/2.
    frames: Option<FrameMeter>,
    /// Whether reading or writing has failed.
    is_broken: bool,
    place: ConnectionSlot,
}

/// Transport of a connection.
pub(crate) enum Stream {
    Plain(Lingering),
    Tls(Box<TlsStream<Lingering>>),
}

/// A slot among the connections that may be open, released when the connection ends.
pub(crate) struct ConnectionSlot {
    counts: PortCounts,
    _listed: Listed,
    _permit: OwnedSemaphorePermit,
}

/// Time limit for the first bytes, before which the peer cannot be pinged.
struct Opening {
    n_missing: usize,
    until: Pin<Box<Sleep>>,
}

impl ConnectionSlot {
    pub(super) fn new(
        permit: OwnedSemaphorePermit,
        listed: Listed,
        counts: PortCounts,
    ) -> ConnectionSlot {
        counts.count_opened();
        ConnectionSlot { counts, _listed: listed, _permit: permit }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.counts.count_closed();
    }
}

impl Connection {
    pub(crate) fn new(stream: Stream, peer: Arc<Peer>, place: ConnectionSlot) -> Connection {
        Connection { stream, peer, opening: None, frames: None, is_broken: false, place }
    }

    /// Returns the connection, from which frames of HTTP/2 come after `n_preface` bytes, with a bound on those of
    /// control.
    pub(super) fn metered(mut self, now: Instant, n_preface: usize) -> Connection {
        self.frames = Some(FrameMeter::new(now, n_preface));
        self
    }

    fn count_frames(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else { return Ok(()) };
        frames.receive(bytes, clock::now).map_err(|Flooded| {
            self.place.counts.count_cut(Cut::ControlFrames);
            io::Error::other("too many frames of control came")
        })
    }

    /// Returns the connection with a limit: it ends unless its first `n_bytes` come within `patience`.
    pub(crate) fn opened_by(mut self, n_bytes: usize, patience: Duration) -> Connection {
        let until = Box::pin(sleep(patience));
        self.opening = Some(Opening { n_missing: n_bytes, until });
        self
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    fn note_sent(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match (&mut self.frames, &written) {
            (Some(frames), Poll::Ready(Ok(n_bytes))) => frames.sent(*n_bytes),
            (_, Poll::Ready(Err(_))) => self.is_broken = true,
            (None, _) | (_, Poll::Pending) => {}
        }
        written
    }

    fn poll_opening(
        &mut self,
        context: &mut Context<'_>,
        n_read: Option<usize>,
    ) -> Poll<io::Result<()>> {
        let Some(opening) = &mut self.opening else { return Poll::Pending };
        if let Some(n_read) = n_read {
            opening.n_missing = opening.n_missing.saturating_sub(n_read);
            if opening.n_missing == 0 {
                self.opening = None;
            }
            return Poll::Pending;
        }
        ready!(opening.until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not begin")))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.peer.unwritten.lost(self.is_broken);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let outcome = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if self.opening.is_some() {
            let n_read = outcome.is_ready().then(|| buffer.filled().len() - n_before);
            if let Poll::Ready(given_up) = self.poll_opening(context, n_read) {
                return Poll::Ready(given_up);
            }
        }
        if let Poll::Ready(read) = &outcome {
            match read {
                Ok(()) => self.peer.unwritten.heard(),
                Err(_) => self.is_broken = true,
            }
            self.count_frames(&buffer.filled()[n_before..])?;
        }
        if outcome.is_pending() && self.peer.unread.poll_cut(context).is_ready() {
            let reason = "an answer has waited too long for its reader, or others need the slot";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)));
        }
        outcome
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.note_sent(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        match &flushed {
            Poll::Ready(Ok(())) => self.peer.unwritten.written(),
            Poll::Ready(Err(_)) => self.is_broken = true,
            Poll::Pending => {}
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        self.note_sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
