//! Helpers that the tests of several crates share. Only tests and benches depend on this crate.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and prints what it skips"
)]

#[cfg(feature = "browser")]
pub mod browser;
pub mod etcd;
pub mod object;
pub mod ports;
pub mod recorded;
