//! Tests of the messages: both encodings, the build of the table of RPCs, and the pages of the API.
//!
//! Every kind that the crate has is compared with types that others wrote: `k8s-pb` for protobuf and `k8s-openapi` for
//! JSON. Objects are built from the descriptors, so that a new field is tested without being listed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints what it compared"
)]

mod access;
mod api_reference;
mod descriptors;
mod fields;
mod json;
mod kinds;
mod malformed;
mod protobuf;
mod random;
mod recorded;
mod requests;
