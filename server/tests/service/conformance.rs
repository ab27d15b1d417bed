//! Recorded decisions, replayed on the engine: a small corpus of our own always, the large one when it is there.

mod lifecycle;

use std::fs;
use std::path::{Path, PathBuf};

use berth_server::conformance::report::{Report, Status};
use berth_server::conformance::tally::Aspect;
use berth_server::conformance::{self, Selection};
use berth_testing::recorded;

/// Every suite of the recorded corpus.
const SUITES: [&str; 21] = [
    "fit",
    "host-ports",
    "image-locality",
    "mixed",
    "node-affinity",
    "node-basics",
    "nominated",
    "pod-affinity",
    "pod-affinity-soft",
    "pod-resources",
    "preemption",
    "preemption-complex",
    "preemption-sequence",
    "profiles",
    "scoring",
    "sequence",
    "spread-defaults",
    "spread-hard",
    "spread-soft",
    "taints",
    "volumes",
];

/// Those of which the own corpus has nothing: they combine what the others show one by one.
const ONLY_RECORDED: [&str; 2] = ["mixed", "sequence"];

fn own_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conformance")
}

/// Exactly these suites are there, and each is as recorded.
fn check_match(report: &Report, suites: &[&str]) {
    let names: Vec<&str> = report.suites.iter().map(|suite| suite.name.as_str()).collect();
    assert_eq!(names, suites);
    for suite in &report.suites {
        assert_eq!(suite.status(), Status::Match, "{}: {:#?}", suite.name, suite.differences);
        assert!(suite.n_steps >= suite.n_cases && suite.n_cases > 0, "{}", suite.name);
    }
    assert!(report.is_match());
}

fn compared(report: &Report, suite: &str, aspect: Aspect) -> u64 {
    let suite = report.suites.iter().find(|known| known.name == suite).expect("the suite is there");
    suite.tallies.of(aspect).compared
}

#[test]
fn own_cases_match() {
    let report = conformance::run(&own_corpus(), &Selection::default()).unwrap();
    let own: Vec<&str> =
        SUITES.into_iter().filter(|suite| !ONLY_RECORDED.contains(suite)).collect();
    check_match(&report, &own);
    for suite in ["nominated", "preemption", "preemption-complex"] {
        for aspect in [
            Aspect::WholeMessages,
            Aspect::PostFilter,
            Aspect::Candidates,
            Aspect::NotHelped,
            Aspect::BestCandidates,
            Aspect::Victims,
            Aspect::Nominations,
        ] {
            assert!(compared(&report, suite, aspect) > 0, "{suite}: {}", aspect.name());
        }
    }
}

#[test]
fn the_recorded_corpus_matches() {
    let Some(corpus) = recorded::find("conformance") else { return };
    // Without optimisation all of it takes more than a minute; `.ci/run` replays the whole of it in any case.
    let every = if cfg!(debug_assertions) { 5 } else { 1 };
    let report = conformance::run(&corpus, &Selection { every, ..Selection::default() }).unwrap();
    check_match(&report, &SUITES);
    for suite in &report.suites {
        let n_totals = suite.tallies.of(Aspect::Totals).compared;
        let (n_steps, least) = match suite.name.as_str() {
            // Ten cases of many steps, of which the best nodes alone are recorded.
            "preemption-sequence" => (800, 80),
            // Many of the pods fit nowhere.
            "nominated" | "preemption" | "preemption-complex" => (1_400, 250),
            _ => (1_400, 1_000),
        };
        assert!(suite.n_steps >= n_steps / every && n_totals >= least, "{}", suite.name);
    }
    assert!(compared(&report, "volumes", Aspect::Volumes) >= 80);
    for (suite, n_victims) in [
        ("nominated", 430),
        ("preemption", 541),
        ("preemption-complex", 272),
        ("preemption-sequence", 388),
    ] {
        let n_compared = compared(&report, suite, Aspect::Victims);
        let least = n_victims / u64::try_from(every).unwrap() * 2 / 3;
        assert!(n_compared >= least, "{suite}: {n_compared} choices of victims");
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
            "\"viaNominatedNode\": false",
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
        // What PostFilter says is compared on its own and as the end of the whole text.
        (
            "preemption",
            "2 No preemption victims found for incoming pod.\", \"preemption",
            "2 Nobody to evict.\", \"preemption",
            "whole messages",
            "Nobody to evict",
            "2 No preemption victims",
        ),
        (
            "preemption",
            "\"message\": \"no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.\"",
            "\"message\": \"not found\"",
            "post filter",
            "Unschedulable: not found",
            "Unschedulable: no new claims",
        ),
        (
            "node-affinity",
            "{\"code\": \"Error\", \"message\": \"not found\"}",
            "{\"code\": \"Unschedulable\", \"message\": \"not found\"}",
            "post filter",
            "Unschedulable: not found",
            "Error: not found",
        ),
        // One candidate more, one less, other victims of one, another count of violations.
        (
            "preemption",
            "\"candidates\": [{\"node\": \"n1\", \"victims\": [\"default/a\"], \"pdbViolations\": 0}, ",
            "\"candidates\": [",
            "candidates",
            "1 candidates counted",
            "2 candidates counted",
        ),
        (
            "preemption",
            "[{\"node\": \"n1\", \"victims\": [\"default/a\"]",
            "[{\"node\": \"n1\", \"victims\": [\"default/b\"]",
            "candidates",
            "default/b (0 violations)",
            "default/a (0 violations)",
        ),
        (
            "preemption",
            "\"pdbViolations\": 1}",
            "\"pdbViolations\": 0}",
            "candidates",
            "default/a (0 violations)",
            "default/a (1 violations)",
        ),
        (
            "preemption",
            "\"notHelped\": {\"n1\": {",
            "\"notHelped\": {\"n3\": {",
            "not helped",
            "not tried",
            "No preemption victims",
        ),
        (
            "preemption",
            "\"best\": [\"n2\", \"n3\"]",
            "\"best\": [\"n2\"]",
            "best candidates",
            "n2",
            "n2 n3",
        ),
        // The best candidates alone are recorded, and how many there are.
        (
            "preemption-sequence",
            "\"candidateCount\": 2",
            "\"candidateCount\": 3",
            "candidates",
            "3 candidates counted",
            "2 candidates counted",
        ),
        // The order of victims is the order in which they count.
        (
            "preemption",
            "\"victims\": [\"default/a2\", \"default/a3\"]}",
            "\"victims\": [\"default/a3\", \"default/a2\"]}",
            "victims",
            "on n1 default/a3 default/a2",
            "on n1 default/a2 default/a3",
        ),
        (
            "nominated",
            "\"clearNominations\": [\"default/equal\", \"default/high\"]",
            "\"clearNominations\": [\"default/equal\"]",
            "nominations",
            "taken from [default/equal]",
            "taken from [default/equal default/high]",
        ),
        (
            "nominated",
            "\"clearNominations\": [\"default/q\"]",
            "\"clearNominations\": []",
            "nominations",
            "nominated to n1",
            "nominated to no node",
        ),
        // A pod that would be placed elsewhere, had its own node not been tried first.
        (
            "nominated",
            "\"feasible\": [\"n1\"], \"viaNominatedNode\": true, \"best\": [\"n1\"], \"scoringSkipped\": true, \"bind\": \"n1\"}}, {\"retry\": \"default/cordoned\"",
            "\"feasible\": [\"n1\", \"n3\"], \"best\": [\"n1\"], \"bind\": \"n1\"}}, {\"retry\": \"default/cordoned\"",
            "feasible",
            "n1 n3",
            "n1",
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
