//! A line between two processes that can be cut and slowed.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Open,
    /// Each piece waits.
    Slow(Duration),
    /// Nothing passes, and nobody is told.
    Cut,
}

/// A listener that passes everything on.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    line: watch::Sender<Line>,
}

impl Proxy {
    /// Passes on what comes to a port of its own.
    pub(crate) async fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, watched) = watch::channel(Line::Open);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, target, watched.clone()));
            }
        });
        Proxy { address, line }
    }

    pub(crate) fn set(&self, line: Line) {
        self.line.send_replace(line);
    }
}

async fn pass(from: TcpStream, target: SocketAddr, mut line: watch::Receiver<Line>) {
    if open(&mut line).await.is_none() {
        return;
    }
    let Ok(to) = TcpStream::connect(target).await else { return };
    let (from_read, from_write) = from.into_split();
    let (to_read, to_write) = to.into_split();
    tokio::select! {
        () = pump(from_read, to_write, line.clone()) => {}
        () = pump(to_read, from_write, line) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut line: watch::Receiver<Line>,
) {
    let mut piece = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut piece).await {
        if open(&mut line).await.is_none() || to.write_all(&piece[..n]).await.is_err() {
            return;
        }
    }
}

/// Waits until a piece may pass; `None` once the proxy is gone.
async fn open(line: &mut watch::Receiver<Line>) -> Option<()> {
    let now = *line.wait_for(|line| *line != Line::Cut).await.ok()?;
    if let Line::Slow(time) = now {
        tokio::time::sleep(time).await;
    }
    Some(())
}
