//! The API server as Berth's peer: the connection, and what Berth writes to it. Reading it is `feed/kube.rs`.

pub mod connect;
pub mod call;
pub mod binding;
pub mod status;
pub mod deletion;
pub mod volume;
pub mod event;
pub mod event_writer;
pub mod leadership;
pub mod lease;
mod options;
#[cfg(test)]
mod scripted;

pub use connect::{ConnectError, connect};
pub use options::KubeOptions;
