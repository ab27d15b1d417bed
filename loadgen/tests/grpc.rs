//! The load generator against a server of known behaviour, over real connections.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "grpc/fake_server.rs"]
mod fake_server;
#[path = "grpc/load.rs"]
mod load;
#[path = "grpc/overload.rs"]
mod overload;
#[path = "grpc/process.rs"]
mod process;
#[path = "grpc/replay.rs"]
mod replay;
