//! The naive scheduler compared with recorded decisions of kube-scheduler, because the engine is compared with the
//! naive scheduler. The recordings are `conformance` of [`berth_testing::recorded`]. `BERTH_CORPUS_CASES` bounds the
//! cases of a suite.

mod compare;
mod preemption;
mod profile;
mod replay;

use berth_testing::recorded;
use serde_json::Value;

macro_rules! suites {
    ($($test:ident: $suite:literal;)+) => {
        $(#[test]
        fn $test() {
            check($suite);
        })+
    };
}

// All 21 suites, every case.
suites! {
    spread_hard: "spread-hard";
    spread_soft: "spread-soft";
    spread_defaults: "spread-defaults";
    pod_affinity: "pod-affinity";
    pod_affinity_soft: "pod-affinity-soft";
    volumes: "volumes";
    profiles: "profiles";
    mixed: "mixed";
    sequence: "sequence";
    fit: "fit";
    pod_resources: "pod-resources";
    node_basics: "node-basics";
    host_ports: "host-ports";
    node_affinity: "node-affinity";
    taints: "taints";
    image_locality: "image-locality";
    scoring: "scoring";
    preemption: "preemption";
    preemption_complex: "preemption-complex";
    preemption_sequence: "preemption-sequence";
    nominated: "nominated";
}

fn check(suite: &str) {
    let Some(cases) = recorded::read(&format!("conformance/{suite}.jsonl.gz")) else { return };
    let n_cases = variable("BERTH_CORPUS_CASES").map(|n| n.parse().expect("a number"));
    let n_cases = n_cases.unwrap_or(usize::MAX);
    let (mut n_attempts, mut failures) = (0, Vec::new());
    for line in cases.lines().take(n_cases) {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let (n, differences) = replay::replay(&case);
        n_attempts += n;
        failures.extend(differences);
    }
    assert!(n_attempts > 0, "no attempts in {suite}");
    let shown: Vec<_> = failures.iter().take(20).collect();
    assert!(
        failures.is_empty(),
        "{} differences in {n_attempts} attempts: {shown:#?}",
        failures.len()
    );
    println!("{suite}: {n_attempts} attempts");
}

#[allow(
    clippy::disallowed_methods,
    reason = "where the corpus is, not how the engine is configured"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
