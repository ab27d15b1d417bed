//! Expressions about devices: verdicts and costs as kube-scheduler v1.36 recorded them, our own examples, and arbitrary
//! texts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod arbitrary;
mod device;
mod examples;
mod recorded;
