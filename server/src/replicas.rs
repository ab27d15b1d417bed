//! How replicas reach each other: what commits is sent on to the replica that does, in the name of its caller.

mod forwarded;
mod peers;
mod sender;

pub(crate) use forwarded::{CALLER, FORWARDED_BY, encode_caller, read_caller};
pub(crate) use peers::Peers;
pub use peers::PeersError;
pub(crate) use sender::Sender;
