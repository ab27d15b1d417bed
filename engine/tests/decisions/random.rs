//! Random clusters, pods and policies over one small vocabulary.

mod affinity;
mod budget;
pub(crate) mod crowd;
pub(crate) mod devices;
pub(crate) mod importance;
mod labels;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod pod;
mod pod_affinity;
pub(crate) mod policy;
mod quantity;
mod relations;
mod spread;
pub(crate) mod storage;
mod volume;

use std::fmt;

use berth_proto::core_v1;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Returns the configuration of a property: fixed inputs, `BERTH_CASES` times as many as `cases`, and no file written
/// beside the sources.
pub(crate) fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: n_cases(cases),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: 10_000,
        ..ProptestConfig::default()
    }
}

/// Returns `n` multiplied by `BERTH_CASES`, the number of cases that a property is checked with.
#[allow(clippy::disallowed_methods, reason = "how long to test, not how the engine is configured")]
fn n_cases(n: u32) -> u32 {
    let factor = std::env::var("BERTH_CASES").ok().map(|text| text.parse().expect("a factor"));
    n * factor.unwrap_or(1)
}

/// Wrapper that is shown as one line of JSON, so that a failing case can be read.
#[derive(Clone)]
pub(crate) struct Json<T>(pub(crate) T);

impl fmt::Debug for Json<core_v1::Node> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).expect("nodes have a JSON form"))
    }
}

impl fmt::Debug for Json<core_v1::Pod> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).expect("pods have a JSON form"))
    }
}
