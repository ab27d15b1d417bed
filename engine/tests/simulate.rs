//! Simulations: what an autoscaler asks, held against the same worked out in the obvious way.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, says what it skips, and uses what it needs of the shared inputs"
)]

#[path = "simulate/consolidate.rs"]
mod consolidate;
#[path = "simulate/drain.rs"]
mod drain;
#[path = "simulate/fit.rs"]
mod fit;
#[path = "simulate/headroom.rs"]
mod headroom;
#[path = "reference/naive.rs"]
mod naive;
#[path = "object/object.rs"]
mod object;
#[path = "random/random.rs"]
mod random;
#[path = "simulate/scale_in.rs"]
mod scale_in;
#[path = "simulate/scale_up.rs"]
mod scale_up;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

use random::n_cases;

fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: n_cases(cases),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: 10_000,
        ..ProptestConfig::default()
    }
}
