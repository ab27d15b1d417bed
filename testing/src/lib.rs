//! Helpers that the tests of several crates share. Only tests and benches depend on this crate.
#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and speaks on its standard output"
)]

pub mod recorded;
