//! Accept: connections of one port, from the kernel to the server of its protocol. Never waits for a single peer:
//! handshakes run concurrently, and a connection beyond the limit takes the slot of one that is not used, or is closed.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWrite as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, ConnectionSlot, Stream};
use super::hellos::Hellos;
use super::linger::Lingering;
use super::open_connections::OpenConnections;
use super::peer::Peer;
use super::tls::{self, Protocol, Tls};
use crate::auth::PeerCertificate;
use crate::clock;
use crate::telemetry::{Cut, LogLimit, PortCounts, Refusal};

/// Time limit for a handshake; a peer that takes longer is not going to finish.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a connection to leave the slot that another takes, and most connections that wait for one.
const SLOT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_WAITING: usize = 64;
/// Time limit for the first bytes of HTTP/2: until they are there, the peer cannot be pinged.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the client preface, `PRI * HTTP/2.0` and its end (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// Number of connections that wait to be served.
const QUEUE: usize = 64;
/// Pauses after an accept that failed for lack of a resource, such as file descriptors.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Keepalive times with which a silently lost peer is noticed after about two minutes, whatever the protocol above
/// does.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 4;

/// Settings of a port.
pub(crate) struct Port {
    pub(crate) protocol: Protocol,
    /// TLS identity; plain text without it.
    pub(crate) tls: Option<Tls>,
    /// Maximum number of open connections, besides those in their handshake.
    pub(crate) max_connections: usize,
    /// How long a write may make no progress.
    pub(crate) write_patience: Duration,
    pub(crate) counts: PortCounts,
}

struct Acceptor {
    port: Port,
    places: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    waiting: Arc<Semaphore>,
    hellos: Arc<Hellos>,
    failed: LogLimit,
    crowded: LogLimit,
    refused: LogLimit,
}

/// Accepts connections on `listener`, which is closed once the receiver is dropped.
pub(crate) fn accept(listener: TcpListener, port: Port) -> mpsc::Receiver<Connection> {
    let (ready, connections) = mpsc::channel(QUEUE);
    let acceptor = Arc::new(Acceptor {
        places: Arc::new(Semaphore::new(port.max_connections.min(Semaphore::MAX_PERMITS))),
        open: Arc::default(),
        waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        hellos: Arc::default(),
        failed: LogLimit::default(),
        crowded: LogLimit::default(),
        refused: LogLimit::default(),
        port,
    });
    tokio::spawn(run(acceptor, listener, ready));
    connections
}

async fn run(acceptor: Arc<Acceptor>, listener: TcpListener, ready: mpsc::Sender<Connection>) {
    let mut pause = FIRST_PAUSE;
    let mut authorities = acceptor.port.tls.as_ref().map(Tls::authorities);
    let mut changed = async || match &mut authorities {
        Some(authorities) => {
            if authorities.changed().await.is_err() {
                pending().await
            }
        }
        None => pending().await,
    };
    loop {
        let accepted = tokio::select! {
            () = ready.closed() => return,
            () = changed() => {
                acceptor.open.close_certified();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                pause = FIRST_PAUSE;
                acceptor.take(stream, address, &ready).await;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                acceptor.note_failed(&error);
                tokio::select! {
                    () = ready.closed() => return,
                    () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                }
            }
        }
    }
}

/// Whether an error concerns one connection only, so that the next accept may succeed at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

impl Acceptor {
    async fn take(
        self: &Arc<Acceptor>,
        stream: TcpStream,
        address: SocketAddr,
        ready: &mpsc::Sender<Connection>,
    ) {
        set_options(&stream, self.port.write_patience);
        let stream = Lingering::new(stream, self.port.write_patience);
        let Some(tls) = &self.port.tls else {
            self.admit(Stream::Plain(stream), Peer::new(Some(address), None), address, ready).await;
            return;
        };
        let acceptor = TlsAcceptor::from(tls.config(self.port.protocol));
        let mut hello = self.hellos.begin();
        let (this, ready) = (self.clone(), ready.clone());
        tokio::spawn(async move {
            let secured = tokio::select! {
                () = ready.closed() => return,
                _ = &mut hello.displaced => Err("too many were in their handshake".to_owned()),
                secured = this.secure(acceptor, stream, address) => secured,
            };
            drop(hello);
            match secured {
                Ok((stream, peer)) => this.admit(stream, peer, address, &ready).await,
                Err(reason) => this.note_refused(address, &reason),
            }
        });
    }

    /// Gives the connection a slot, its own or that of a connection that is not used, and hands it over.
    async fn admit(
        self: &Arc<Acceptor>,
        stream: Stream,
        peer: Peer,
        address: SocketAddr,
        ready: &mpsc::Sender<Connection>,
    ) {
        let peer = Arc::new(peer);
        if let Ok(permit) = self.places.clone().try_acquire_owned() {
            self.hand_over(self.connection(stream, peer, permit), ready).await;
            return;
        }
        let Some(waits) =
            self.waiting.clone().try_acquire_owned().ok().filter(|_| self.open.make_room())
        else {
            self.note_crowded(address);
            return;
        };
        self.port.counts.count_cut(Cut::Displaced);
        let (this, ready) = (self.clone(), ready.clone());
        tokio::spawn(async move {
            let permit = timeout(SLOT_TIMEOUT, this.places.clone().acquire_owned()).await;
            drop(waits);
            match permit {
                Ok(Ok(permit)) => {
                    this.hand_over(this.connection(stream, peer, permit), &ready).await
                }
                Ok(Err(_)) | Err(_) => this.note_crowded(address),
            }
        });
    }

    fn connection(
        &self,
        stream: Stream,
        peer: Arc<Peer>,
        permit: OwnedSemaphorePermit,
    ) -> Connection {
        let listed = self.open.add(&peer);
        let place = ConnectionSlot::new(permit, listed, self.port.counts.clone());
        Connection::new(stream, peer, place)
    }

    /// # Errors
    /// The reason why there is no connection, for the log.
    async fn secure(
        &self,
        acceptor: TlsAcceptor,
        stream: Lingering,
        address: SocketAddr,
    ) -> Result<(Stream, Peer), String> {
        let handshake = acceptor.accept(stream).into_fallible();
        let stream = match timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err((error, mut stream))) => {
                // Closed like any connection, so that the peer can read the reason.
                drop(poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await);
                return Err(tls::reason(&error));
            }
            Err(_) => return Err(format!("it took longer than {HANDSHAKE_TIMEOUT:?}")),
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = shown
            .map(|certificate| PeerCertificate::parse(certificate))
            .transpose()
            .map_err(|error| format!("its certificate cannot be used: {error}"))?;
        let peer = Peer::new(Some(address), certificate);
        Ok((Stream::Tls(Box::new(stream)), peer))
    }

    async fn hand_over(&self, connection: Connection, ready: &mpsc::Sender<Connection>) {
        let connection = match self.port.protocol {
            Protocol::Grpc => connection
                .opened_by(PREFACE_BYTES, PREFACE_TIMEOUT)
                .metered(clock::now(), PREFACE_BYTES),
            // The HTTP/1.1 server has a time limit of its own for each head.
            Protocol::Http => connection,
        };
        // The receiver is gone when the server drains.
        drop(ready.send(connection).await);
    }

    fn note_failed(&self, error: &io::Error) {
        if let Some(n_more) = self.failed.admit(clock::now()) {
            let protocol = self.port.protocol.name();
            tracing::error!(
                n_more,
                "cannot accept {protocol} connections, and trying again: {error}; \
                 where it says too many open files, raise the limit of the process (`ulimit -n`)"
            );
        }
    }

    fn note_crowded(&self, address: SocketAddr) {
        self.port.counts.count_refused(Refusal::Crowded);
        if let Some(n_more) = self.crowded.admit(clock::now()) {
            let protocol = self.port.protocol.name();
            let max = self.port.max_connections;
            tracing::warn!(
                n_more,
                "closed a {protocol} connection from {address}: {max} are open and in use, which is the most (`limits.maxConnections`)"
            );
        }
    }

    fn note_refused(&self, address: SocketAddr, reason: &str) {
        self.port.counts.count_refused(Refusal::Handshake);
        if let Some(n_more) = self.refused.admit(clock::now()) {
            let protocol = self.port.protocol.name();
            tracing::warn!(
                n_more,
                "no {protocol} connection for {address}, the TLS handshake failed: {reason}"
            );
        }
    }
}

/// Sets socket options, so that responses leave at once and a lost peer is noticed. Failures are harmless.
fn set_options(stream: &TcpStream, write_patience: Duration) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    let socket = SockRef::from(stream);
    let set = stream.set_nodelay(true).and_then(|()| socket.set_tcp_keepalive(&keepalive));
    // Otherwise the system would try for a quarter of an hour to send the rest of a connection that was given up.
    #[cfg(target_os = "linux")]
    let set = set.and_then(|()| socket.set_tcp_user_timeout(Some(write_patience)));
    #[cfg(not(target_os = "linux"))]
    let _ = write_patience;
    if let Err(error) = set {
        tracing::debug!(%error, "a connection goes without its socket options");
    }
}
