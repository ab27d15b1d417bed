//! Peer: the other end of a connection. Every request carries it in its extensions, as `Arc<Peer>`.

use std::net::SocketAddr;

use super::activity::Activity;
use super::unread::Unread;
use super::unwritten::Unwritten;
use crate::auth::{PeerCertificate, PeerIdentity};

/// The other end of a connection.
#[derive(Debug, Default)]
pub struct Peer {
    /// Address of the peer; `None` for a connection without one.
    pub address: Option<SocketAddr>,
    /// The certificate that the peer presented, and the caller that it identifies.
    pub identity: PeerIdentity,
    /// Responses that the peer has not read yet, and whether the connection is to be closed for that.
    pub(crate) unread: Unread,
    /// What the connection has been used for.
    pub(crate) activity: Activity,
    /// Responses that wait for the connection to be written.
    pub(crate) unwritten: Unwritten,
}

impl Peer {
    /// A peer at `address` that presented `certificate`.
    #[must_use]
    pub fn new(address: Option<SocketAddr>, certificate: Option<PeerCertificate>) -> Peer {
        Peer { address, identity: PeerIdentity::new(certificate), ..Peer::default() }
    }
}
