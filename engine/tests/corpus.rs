//! The naive scheduler of `reference/` held against the recorded decisions of kube-scheduler itself, so that what the
//! engine is held against is right. Runs where the corpus is present: in `$BERTH_SHARED/conformance`, or in
//! `../shared/conformance` beside the workspace. `BERTH_CORPUS_CASES` bounds the cases of a suite.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and uses what it needs of the reference"
)]

#[path = "corpus/compare.rs"]
mod compare;
#[path = "reference/naive.rs"]
mod naive;
#[path = "corpus/preemption.rs"]
mod preemption;
#[path = "corpus/profile.rs"]
mod profile;
#[path = "corpus/replay.rs"]
mod replay;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

macro_rules! suites {
    ($($test:ident: $suite:literal;)+) => {
        $(#[test]
        fn $test() {
            check($suite);
        })+
    };
}

// All 21 of them, every case.
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
    let path = shared().join("conformance").join(format!("{suite}.jsonl.gz"));
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
        return;
    }
    let n_cases = variable("BERTH_CORPUS_CASES").map(|n| n.parse().expect("a number"));
    let n_cases = n_cases.unwrap_or(usize::MAX);
    let (mut n_attempts, mut failures) = (0, Vec::new());
    for line in lines(&path).lines().take(n_cases) {
        let case: Value = serde_json::from_str(line).expect("a case is JSON");
        let (n, differences) = replay::replay(&case);
        n_attempts += n;
        failures.extend(differences);
    }
    assert!(n_attempts > 0, "no attempts in {}", path.display());
    let shown: Vec<_> = failures.iter().take(20).collect();
    assert!(
        failures.is_empty(),
        "{} differences in {n_attempts} attempts: {shown:#?}",
        failures.len()
    );
    println!("{suite}: {n_attempts} attempts");
}

fn lines(path: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip is there");
    assert!(output.status.success(), "{}", path.display());
    String::from_utf8(output.stdout).expect("cases are UTF-8")
}

fn shared() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    variable("BERTH_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from)
}

#[allow(
    clippy::disallowed_methods,
    reason = "where the corpus is, not how the engine is configured"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
