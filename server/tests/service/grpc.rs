//! The gRPC services over a connection on loopback, with real clients.

mod assumed;
mod autoscaler;
mod cluster;
mod concurrency;
mod drain;
mod evaluate;
mod feed;
mod gang;
mod lifecycle;
mod malformed;
mod named;
mod objects;
mod placement;
mod preemption;
mod probes;
mod reset;
mod session;
mod stream;
mod sync;
mod world;
