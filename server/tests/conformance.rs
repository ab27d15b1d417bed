//! Recorded decisions, replayed on the engine: a small corpus of our own always, the large one when it is there.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use berth_server::conformance::report::{Report, Status};
use berth_server::conformance::{self, Selection};

/// Suites that the built plugins cover in full.
const COVERED: [&str; 8] = [
    "fit",
    "host-ports",
    "image-locality",
    "node-affinity",
    "node-basics",
    "pod-resources",
    "scoring",
    "taints",
];

fn own_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conformance")
}

fn shared_corpus() -> Option<PathBuf> {
    let shared = std::env::var_os("BERTH_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let corpus = shared.join("conformance");
    corpus.is_dir().then_some(corpus)
}

fn check_match(report: &Report) {
    for suite in &report.suites {
        let expected =
            if COVERED.contains(&suite.name.as_str()) { Status::Match } else { Status::NotCovered };
        assert_eq!(suite.status(), expected, "{}: {:#?}", suite.name, suite.differences);
        assert!(
            suite.not_covered.is_some() != COVERED.contains(&suite.name.as_str()),
            "{}",
            suite.name
        );
    }
    for name in COVERED {
        let suite = report
            .suites
            .iter()
            .find(|suite| suite.name == name)
            .expect("every covered suite is there");
        assert_eq!(suite.n_covered_cases, suite.n_cases, "{name}");
        assert!(suite.n_steps >= suite.n_cases, "{name}");
    }
}

#[test]
fn own_cases_match() {
    let report = conformance::run(&own_corpus(), &Selection::default()).unwrap();
    assert_eq!(report.suites.len(), COVERED.len() + 1);
    check_match(&report);
    assert!(report.is_match());
}

#[test]
fn the_recorded_corpus_matches() {
    let Some(corpus) = shared_corpus() else {
        println!(
            "skipped: no recorded corpus (set BERTH_SHARED to a directory with `conformance/`)"
        );
        return;
    };
    let report = conformance::run(&corpus, &Selection::default()).unwrap();
    check_match(&report);
    for name in COVERED {
        let suite = report.suites.iter().find(|suite| suite.name == name).unwrap();
        assert!(
            suite.n_cases >= 300 && suite.tallies.scores().compared > 20_000,
            "{name}: {} cases",
            suite.n_cases
        );
    }
}

/// Each change of a record is one that the runner must notice, and name.
#[test]
fn a_changed_record_is_a_difference() {
    for (suite, from, to, aspect, expected, got) in [
        (
            "fit",
            "\"NodeResourcesFit\": 56,",
            "\"NodeResourcesFit\": 57,",
            "NodeResourcesFit",
            "raw 57",
            "raw 56",
        ),
        ("fit", "\"total\": 415", "\"total\": 416", "totals", "416", "415"),
        (
            "fit",
            "3 Insufficient cpu. no new",
            "4 Insufficient cpu. no new",
            "messages",
            "4 Insufficient",
            "3 Insufficient",
        ),
        (
            "fit",
            "\"feasible\": [\"n1\"]",
            "\"feasible\": [\"n1\", \"n2\"]",
            "feasible",
            "n1 n2",
            "n1",
        ),
        ("scoring", "\"best\": [\"a\", \"b\"]", "\"best\": [\"b\"]", "best", "b", "a b"),
        (
            "taints",
            "had untolerated taint(s)",
            "had a taint",
            "rejections",
            "had a taint",
            "untolerated",
        ),
        ("node-basics", "gates: [g1 g2]", "gates: [g2 g1]", "outcome", "[g2 g1]", "[g1 g2]"),
        (
            "node-affinity",
            "\"error\": \"not an integer\"",
            "\"noError\": \"\"",
            "outcome",
            "nodes filtered",
            "an internal error",
        ),
        (
            "node-affinity",
            "terms conflict\"]",
            "terms agree\"]",
            "outcome",
            "terms agree",
            "terms conflict",
        ),
    ] {
        let text = fs::read_to_string(own_corpus().join(format!("{suite}.jsonl"))).unwrap();
        assert!(text.contains(from), "{suite}: {from}");
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(format!("{suite}.jsonl")), text.replacen(from, to, 1))
            .unwrap();
        let report = conformance::run(directory.path(), &Selection::default()).unwrap();
        assert!(!report.is_match(), "{suite}: {to}");
        let found = report.suites[0].differences.iter().any(|(_, difference)| {
            difference.aspect.name() == aspect
                && difference.expected.contains(expected)
                && difference.got.contains(got)
        });
        assert!(found, "{suite}: {to}: {:#?}", report.suites[0].differences);
    }
}

#[test]
fn a_case_that_cannot_be_replayed_is_a_difference_not_a_pass() {
    let case = |config: &str, cluster: &str, steps: &str| {
        format!(
            r#"{{"id": "c", "suite": "s", "config": {config}, "cluster": {cluster}, "steps": {steps}}}"#
        )
    };
    let null = "null";
    for (case, expected) in [
        (case(r#"{"kind": "Pod"}"#, "{}", "[]"), "couldn't decode as KubeSchedulerConfiguration"),
        (
            case(
                null,
                r#"{"nodes": [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "-1"}}}]}"#,
                "[]",
            ),
            "cluster.nodes[0]: ",
        ),
        (case(null, "{}", r#"[{"retry": "a/b", "expect": {}}]"#), "retry of unknown pod `a/b`"),
        (case(null, "{}", r#"[{"delete": ["b"]}]"#), "`b` is not `namespace/name`"),
        (case(null, "{}", r#"[{"expect": {}}]"#), "exactly one of `pod`, `retry`, `delete`"),
        (
            case(
                null,
                "{}",
                r#"[{"pod": {"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": {}}}]"#,
            ),
            "an attempt without `expect`",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("s.jsonl"), &case).unwrap();
        let report = conformance::run(directory.path(), &Selection::default()).unwrap();
        let suite = &report.suites[0];
        assert_eq!(suite.status(), Status::Mismatch, "{case}");
        assert!(
            suite.differences[0].1.got.contains(expected),
            "{case}: {:?}",
            suite.differences[0]
        );
    }
}

#[test]
fn unusable_directories_and_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let run = |suites: &[&str]| {
        let suites = suites.iter().map(ToString::to_string).collect();
        let outcome =
            conformance::run(directory.path(), &Selection { suites, ..Selection::default() });
        outcome.unwrap_err().to_string()
    };
    assert_eq!(run(&[]), format!("`{path}` holds no `*.jsonl` or `*.jsonl.gz` file"));
    fs::write(directory.path().join("a.jsonl"), "\n{\"id\": 1}\n").unwrap();
    assert_eq!(run(&["b"]), format!("suite `b` is not in `{path}`, which has: a"));
    assert!(
        run(&[]).starts_with(&format!("{path}/a.jsonl:2: column 8: invalid type: integer `1`")),
        "{}",
        run(&[])
    );
    fs::write(directory.path().join("a.jsonl"), "\n\n").unwrap();
    assert_eq!(run(&[]), format!("`{path}/a.jsonl` holds no case"));
    fs::remove_file(directory.path().join("a.jsonl")).unwrap();
    fs::write(directory.path().join("a.jsonl.gz"), "not gzip").unwrap();
    assert!(run(&[]).starts_with(&format!("cannot read `{path}/a.jsonl.gz`: ")), "{}", run(&[]));
    let missing =
        conformance::run(Path::new("/nonexistent"), &Selection::default()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read `/nonexistent`: "), "{missing}");
}

#[test]
fn sampling_takes_every_nth_case() {
    let selection = Selection { suites: vec!["fit".to_owned()], every: 3, n_differences: 1 };
    let report = conformance::run(&own_corpus(), &selection).unwrap();
    assert_eq!((report.suites.len(), report.suites[0].n_cases, report.sampled_every), (1, 2, 3));
}
