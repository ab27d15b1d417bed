//! Recorded responses of a kube-apiserver 1.36.2, replayed: `data/apiserver` of [`berth_testing::recorded`].
//!
//! Each scenario starts with its recorded objects, and its requests are sent in order. The comparison covers the
//! status, `Retry-After` and the whole body, except times and managed fields. Versions are translated both ways as they
//! occur, so that a stale version stays stale.

mod reads;
mod replay;
mod streams;
mod writes;
