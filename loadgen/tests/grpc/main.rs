//! The load generator against a server of known behaviour, over real connections.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod fake_server;
mod load;
mod overload;
mod process;
mod replay;
