//! A listener whose connections can be cut, by a fault or when the server stops.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Handle of one client's connection, by which it can be cut.
#[derive(Clone, Default)]
pub(crate) struct Connection(Arc<Switch>);

#[derive(Default)]
struct Switch {
    is_cut: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

/// The open connections.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Vec<Weak<Switch>>>>);

pub(crate) struct CutListener {
    pub(crate) listener: TcpListener,
    pub(crate) connections: Connections,
}

pub(crate) struct CutStream {
    stream: TcpStream,
    connection: Connection,
}

impl Connection {
    /// Cuts the connection: further reads and writes fail, so that its task drops it.
    pub(crate) fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Release);
        let waker = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn check(&self, context: &Context<'_>) -> io::Result<()> {
        *self.0.reader.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(context.waker().clone());
        if self.0.is_cut.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Connections {
    fn add(&self, connection: &Connection) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&connection.0));
    }

    pub(crate) fn cut_all(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).for_each(|switch| Connection(switch).cut());
    }
}

impl Listener for CutListener {
    type Io = CutStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (CutStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Events are small, and clients wait for each of them.
                    stream.set_nodelay(true).ok();
                    let connection = Connection::default();
                    self.connections.add(&connection);
                    return (CutStream { stream, connection }, address);
                }
                // The process is probably out of file descriptors, some of which will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, CutListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, CutListener>) -> Connection {
        stream.io().connection.clone()
    }
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.connection.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection.check(context)?;
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
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
