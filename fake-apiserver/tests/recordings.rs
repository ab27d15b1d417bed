//! Recorded responses of a kube-apiserver 1.36.2, replayed: `data/apiserver` in `BERTH_SHARED` or `../shared`.
//!
//! Each scenario starts with its recorded objects, and its requests are sent in order. The comparison covers the
//! status, `Retry-After` and the whole body, except times and managed fields. Versions are translated both ways as they
//! occur, so that a stale version stays stale.
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
