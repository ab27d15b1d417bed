//! The service as its callers see it: a real server on loopback, real clients, nothing in between.
#![cfg(test)]

mod cluster;
mod concurrency;
mod drain;
mod feed;
mod malformed;
mod objects;
mod placement;
mod probes;
mod serve;
mod stream;
mod sync;
mod world;
