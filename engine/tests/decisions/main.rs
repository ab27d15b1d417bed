//! Tests of the engine's decisions: placement, preemption, batches, sessions and simulations.
//!
//! `naive` is a second implementation that the engine is compared with. `random` generates inputs.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints how much it compared"
)]

mod account;
mod allowance;
mod concurrency;
mod corpus;
mod determinism;
mod device_reference;
mod devices;
mod fences;
mod fixed_points;
mod gang;
mod incremental;
mod limits;
mod naive;
mod preemption;
mod random;
mod reference;
mod remedy;
mod session;
mod simulate;
mod view;
mod volumes;
mod worked_examples;
