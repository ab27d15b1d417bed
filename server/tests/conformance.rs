//! Recorded decisions, replayed on the engine: a small corpus of our own always, the large one when it is there.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use berth_server::conformance::report::{Report, Status};
use berth_server::conformance::tally::Aspect;
use berth_server::conformance::{self, Selection};

/// Suites that are compared in full.
const COVERED: [&str; 17] = [
    "fit",
    "host-ports",
    "image-locality",
    "mixed",
    "node-affinity",
    "node-basics",
    "pod-affinity",
    "pod-affinity-soft",
    "pod-resources",
    "profiles",
    "scoring",
    "sequence",
    "spread-defaults",
    "spread-hard",
    "spread-soft",
    "taints",
    "volumes",
];

/// Those of them of which the own corpus has nothing: they combine what the others show one by one.
const ONLY_RECORDED: [&str; 2] = ["mixed", "sequence"];

fn own_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conformance")
}

fn shared_corpus() -> Option<PathBuf> {
    let shared = std::env::var_os("BERTH_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let corpus = shared.join("conformance");
    corpus.is_dir().then_some(corpus)
}

fn check_match(report: &Report, covered: &[&str]) {
    for suite in &report.suites {
        let is_covered = covered.contains(&suite.name.as_str());
        let expected = if is_covered { Status::Match } else { Status::NotCovered };
        assert_eq!(suite.status(), expected, "{}: {:#?}", suite.name, suite.differences);
        assert_eq!(suite.not_covered.is_none(), is_covered, "{}", suite.name);
        assert!(!is_covered || suite.n_left_out == 0, "{}", suite.name);
    }
    for name in covered {
        let suite = report
            .suites
            .iter()
            .find(|suite| suite.name == *name)
            .expect("every covered suite is there");
        assert!(suite.n_steps >= suite.n_cases && suite.n_cases > 0, "{name}");
    }
    assert!(report.is_match());
}

#[test]
fn own_cases_match() {
    let report = conformance::run(&own_corpus(), &Selection::default()).unwrap();
    let own: Vec<&str> =
        COVERED.into_iter().filter(|suite| !ONLY_RECORDED.contains(suite)).collect();
    check_match(&report, &own);
    assert_eq!(report.suites.len(), own.len() + 1, "and one about preemption");
}

#[test]
fn the_recorded_corpus_matches() {
    let Some(corpus) = shared_corpus() else {
        println!(
            "skipped: no recorded corpus (set BERTH_SHARED to a directory with `conformance/`)"
        );
        return;
    };
    // Without optimisation all of it takes more than a minute; `.ci/run` replays the whole of it in any case.
    let every = if cfg!(debug_assertions) { 5 } else { 1 };
    let report = conformance::run(&corpus, &Selection { every, ..Selection::default() }).unwrap();
    check_match(&report, &COVERED);
    for name in COVERED {
        let suite = report.suites.iter().find(|suite| suite.name == name).unwrap();
        let n_totals = suite.tallies.of(Aspect::Totals).compared;
        assert!(suite.n_steps >= 1_400 / every && n_totals > 1_000, "{name}: {suite:?}");
    }
    let volumes = report.suites.iter().find(|suite| suite.name == "volumes").unwrap();
    assert!(volumes.tallies.of(Aspect::Volumes).compared >= 80);
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
        (
            "spread-soft",
            "\"PodTopologySpread\": 88,",
            "\"PodTopologySpread\": 89,",
            "PodTopologySpread",
            "weighted 89",
            "weighted 88",
        ),
        (
            "volumes",
            "\"default/local-3\": \"local-n1-big\"",
            "\"default/local-3\": \"local-n1\"",
            "volumes",
            "\"default/local-3\": \"local-n1\"",
            "\"default/local-3\": \"local-n1-big\"",
        ),
        // The engine's own choice is another node; it is asked about the recorded one.
        (
            "volumes",
            "{\"static\": {\"default/dynamic\": \"there\"}}",
            "{\"provision\": [\"default/dynamic\"]}",
            "volumes",
            "provision: {\"default/dynamic\"}",
            "\"default/dynamic\": \"there\"",
        ),
        (
            "pod-affinity",
            "didn't match pod affinity rules",
            "disliked the pods there",
            "rejections",
            "disliked",
            "affinity rules",
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
        (case(null, r#"{"storageClasses": [{}]}"#, "[]"), "StorageClass: `metadata`: is missing"),
        (
            case(
                null,
                r#"{"nodes": [{"metadata": {"name": "n"}}]}"#,
                r#"[{"pod": {"metadata": {"name": "p", "uid": "u"}, "spec": {}}, "expect": {"bind": "n", "volumes": {"provision": ["d/c"]}}}]"#,
            ),
            "no claim `d/c`",
        ),
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
            suite.differences.iter().any(|(_, found)| found.got.contains(expected)),
            "{case}: {:?}",
            suite.differences
        );
    }
}

/// Of the suite about preemption, steps that a nomination touches are left out; elsewhere that is a failure.
#[test]
fn steps_on_which_a_nomination_bears_are_left_out() {
    let report = conformance::run(&own_corpus(), &Selection::default()).unwrap();
    let suite = report.suites.iter().find(|suite| suite.name == "preemption").unwrap();
    assert_eq!((suite.n_steps, suite.n_left_out), (2, 2));
    assert_eq!(suite.not_covered.as_deref(), Some("needs DefaultPreemption"));
    let text = fs::read_to_string(own_corpus().join("preemption.jsonl")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("fit.jsonl"), text).unwrap();
    let report = conformance::run(directory.path(), &Selection::default()).unwrap();
    let suite = &report.suites[0];
    let reason = "own-preemption, step 1: a nominated pod holds its room";
    assert_eq!(suite.not_covered.as_deref(), Some(reason));
    assert_eq!(suite.status(), Status::NotCovered, "{:#?}", suite.differences);
    assert!(!report.is_match());
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
