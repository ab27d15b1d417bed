//! The connection to the API server, and everything that Berth writes to it. `feed/kube.rs` reads from it.

pub(crate) mod causes;
pub mod connect;
mod connection;
pub mod call;
pub mod binding;
pub mod status;
pub mod deletion;
pub mod volume;
pub mod device_claim;
pub mod event;
pub mod event_writer;
pub mod leadership;
pub mod lease;
mod options;
#[cfg(test)]
mod scripted;

pub use connect::{ConnectError, connect};
pub use connection::Connection;
pub use options::KubeOptions;
