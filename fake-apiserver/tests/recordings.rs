//! What a real kube-apiserver 1.36.2 answered, asked again: `data/apiserver` in `BERTH_SHARED` or `../shared`.
//!
//! Each scenario is set up with the objects it began with, and its requests are sent in order. Compared are the status,
//! `Retry-After`, and the whole body, but for what has to differ: times, managed fields, and versions, which are
//! translated both ways as they come up (so that a stale version stays stale).
#![cfg(test)]

#[path = "api/client.rs"]
mod client;
#[path = "recordings/replay.rs"]
mod replay;
#[path = "recordings/reads.rs"]
mod reads;
#[path = "recordings/streams.rs"]
mod streams;
#[path = "recordings/writes.rs"]
mod writes;
