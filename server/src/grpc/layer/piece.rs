//! Piece: data of a response on its way through the transport, with what is undone unless it is written.

use std::sync::Arc;

use prost::bytes::{Buf, Bytes};

use crate::net::Peer;
use crate::service::Undelivered;

/// Data of a response.
///
/// The transport takes all of it when it copies the data into the connection's buffer, and drops it untaken when the
/// stream is reset before. A message counts as delivered once its last piece was written, whether or not the response's
/// status followed.
pub(crate) struct Piece {
    data: Bytes,
    guard: Option<Box<Guard>>,
}

/// What is undone unless the data is written.
struct Guard {
    undelivered: Vec<Undelivered>,
    /// The connection; `None` for a call without one, whose response counts as written once it is taken.
    peer: Option<Arc<Peer>>,
}

impl Piece {
    pub(super) fn new(data: Bytes) -> Piece {
        Piece { data, guard: None }
    }

    /// Undoes these changes unless the data is written to the peer.
    pub(super) fn guarding(self, undelivered: Vec<Undelivered>, peer: Option<&Arc<Peer>>) -> Piece {
        if undelivered.is_empty() {
            return self;
        }
        let guard = Some(Box::new(Guard { undelivered, peer: peer.cloned() }));
        Piece { guard, ..self }
    }
}

impl Guard {
    fn taken(self) {
        let Guard { undelivered, peer } = self;
        let deliver = move || undelivered.into_iter().for_each(Undelivered::delivered);
        match peer {
            Some(peer) => peer.unwritten.add(Box::new(deliver)),
            None => deliver(),
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, n_bytes: usize) {
        self.data.advance(n_bytes);
        if !self.data.has_remaining()
            && let Some(guard) = self.guard.take()
        {
            guard.taken();
        }
    }
}
