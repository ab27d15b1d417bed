//! Both encodings of every kind that the crate carries, against types that others wrote: `k8s-pb` for protobuf and
//! `k8s-openapi` for JSON. Objects are built from the descriptors, so that a new field is tested without being listed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "encodings/descriptors.rs"]
mod descriptors;
#[path = "encodings/json.rs"]
mod json;
#[path = "encodings/kinds.rs"]
mod kinds;
#[path = "encodings/malformed.rs"]
mod malformed;
#[path = "encodings/protobuf.rs"]
mod protobuf;
#[path = "encodings/random.rs"]
mod random;
#[path = "encodings/recorded.rs"]
mod recorded;
