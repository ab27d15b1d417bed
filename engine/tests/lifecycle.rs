//! What must hold of the lifecycle decisions whatever they are asked: properties over random stories.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod lifecycle {
    use proptest::prelude::ProptestConfig;
    use proptest::test_runner::RngSeed;

    /// The same stories in every run, and nothing written beside the sources.
    fn config(cases: u32, seed: u64) -> ProptestConfig {
        ProptestConfig {
            cases,
            rng_seed: RngSeed::Fixed(seed),
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    }

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
}
