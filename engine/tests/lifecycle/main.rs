//! Properties of the lifecycle decisions, checked over random sequences of events.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod attachment;
mod authority;
mod back_off;
mod container_state;
mod evaluation;
mod faults;
mod fence;
mod grace;
mod identity;
mod phase;
mod pod_gc;
mod probe;
mod termination;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Returns the configuration of a property: the same inputs in every run, and no file written beside the sources.
fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
