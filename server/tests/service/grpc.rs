//! The service as its callers see it: a real server on loopback, real clients, nothing in between.

mod autoscaler;
mod cluster;
mod concurrency;
mod drain;
mod evaluate;
mod feed;
mod gang;
mod lifecycle;
mod malformed;
mod objects;
mod placement;
mod preemption;
mod probes;
mod session;
mod stream;
mod sync;
mod world;
