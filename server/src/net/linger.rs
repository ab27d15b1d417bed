//! A connection that waits for its peer before it closes. If a socket is closed while some of the peer's data is still
//! unread (a window update, a ping), the connection is reset, and the peer may lose the end of a response that it had
//! not read yet. So closing first shuts down the sending side, then reads until the peer closes too.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::write_timeout::WriteTimeout;

/// How long a peer may take to close its side.
const LINGER: Duration = Duration::from_millis(500);

/// A TCP connection that lingers, and that ends when its peer stops reading. TLS goes on top of it.
pub(crate) struct Lingering {
    stream: TcpStream,
    stall: WriteTimeout,
    /// Set once nothing more will be sent.
    until: Option<Pin<Box<Sleep>>>,
}

impl Lingering {
    /// Creates a connection; `patience` is how long a write may make no progress.
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Lingering {
        Lingering { stream, stall: WriteTimeout::new(patience), until: None }
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.stall.watch(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        let Lingering { stream, until, .. } = &mut *self;
        let until = until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut bytes = [0; 4096];
        while until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The peer has closed its side, or is gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.stall.watch(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The peer reads the whole response although some of its own data was never read.
    #[tokio::test]
    async fn unread_input_does_not_cost_the_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = Lingering::new(stream, Duration::from_secs(60));
            let mut first = [0; 1];
            stream.read_exact(&mut first).await.unwrap();
            stream.write_all(&vec![7; 1 << 20]).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"a request and more than the server reads").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer.len(), 1 << 20);
        drop(client);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_loses_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = Lingering::new(stream, Duration::from_millis(50));
        // More than the buffers of both ends hold.
        let error = stream.write_all(&vec![7; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(client);
    }
}
