//! Checks of the source tree that the tests of several crates share. Only tests depend on this crate.
//!
//! [`floors`] holds the order of a crate's rooms: it reads every source file under `src`, finds which file imports what
//! from which other file, and compares that with a list in the repository.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a check that cannot read its files fails by panicking"
)]

pub mod floors;
mod imports;
mod module;
mod tokens;
