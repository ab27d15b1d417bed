//! Connections: listening, accepting, TLS, and a time limit for everything that a peer can make a server wait for.
//!
//! Both ports share one accept loop, with limits on connections and handshakes, that never waits for a single peer.

mod accept;
mod activity;
mod frames;
mod hellos;
mod open_connections;
mod listen;
mod connection;
mod tls;
mod http1;
mod http2;
mod peer;
mod unwritten;
mod slow_readers;
mod unread;
mod write_timeout;
mod linger;

pub(crate) use accept::{Port, accept};
pub(crate) use connection::Connection;
pub(crate) use http1::serve as serve_http1;
pub(crate) use http2::{Http2, serve as serve_http2};
pub use listen::ListenError;
pub(crate) use listen::{Guard, listen};
pub(crate) use open_connections::InUse;
pub use peer::Peer;
pub(crate) use slow_readers::{ResponseSlot, SlowReaders};
pub(crate) use tls::{Protocol, Tls};
pub use tls::{TlsError, TlsFiles};
