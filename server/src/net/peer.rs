//! Peer: the other end of a connection. Every request carries it in its extensions, as `Arc<Peer>`.

use std::net::SocketAddr;

use super::unread::Unread;
use crate::auth::{PeerCertificate, PeerIdentity};

/// The other end of a connection.
#[derive(Debug, Default)]
pub struct Peer {
    /// Its address; `None` for a connection without one.
    pub address: Option<SocketAddr>,
    /// The certificate that it showed, and the caller behind it.
    pub identity: PeerIdentity,
    /// Responses that it has not read yet, and whether the connection is to be closed for that.
    pub(crate) unread: Unread,
}

impl Peer {
    /// A peer at `address` that showed `certificate`.
    #[must_use]
    pub fn new(address: Option<SocketAddr>, certificate: Option<PeerCertificate>) -> Peer {
        Peer { address, identity: PeerIdentity::new(certificate), unread: Unread::default() }
    }
}
