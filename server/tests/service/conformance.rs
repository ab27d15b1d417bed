//! Replays recorded decisions on the engine: always a small corpus of the repository, and the large one when it is
//! available.

mod changed;
mod lifecycle;

use std::fs;
use std::path::{Path, PathBuf};

use berth_engine::KubernetesVersion;
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

/// Every suite about what Kubernetes 1.37 changes.
const SUITES_OF_1_37: [&str; 3] =
    ["volume-capacity-scoring", "volume-limit-scaling", "volumes-1.37-mixed"];

/// Every suite about claims for devices.
const DEVICE_SUITES: [&str; 18] = [
    "dra-admin",
    "dra-basic",
    "dra-binding",
    "dra-capacity",
    "dra-cel",
    "dra-constraints",
    "dra-extended",
    "dra-hints",
    "dra-limits",
    "dra-mixed",
    "dra-odd",
    "dra-partitionable",
    "dra-postfilter",
    "dra-prioritized",
    "dra-selectors",
    "dra-sequence",
    "dra-shared-claims",
    "dra-taints",
];

/// Suites that exist only in the recorded corpus; they combine the subjects of the other suites.
const ONLY_RECORDED: [&str; 2] = ["mixed", "sequence"];

fn own_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conformance")
}

/// Checks that the report has exactly these suites, and that each matches its records.
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
fn own_cases_about_devices_match() {
    let folder = own_corpus().with_file_name("conformance-dra");
    let report = conformance::run(&folder, &Selection::default()).unwrap();
    check_match(&report, &DEVICE_SUITES);
    for (suite, aspect) in [
        ("dra-binding", Aspect::Reservations),
        ("dra-binding", Aspect::Waits),
        ("dra-capacity", Aspect::Allocations),
        ("dra-cel", Aspect::Costs),
        ("dra-extended", Aspect::ExtendedRequests),
        ("dra-hints", Aspect::Hints),
        ("dra-postfilter", Aspect::Deallocations),
    ] {
        assert!(compared(&report, suite, aspect) > 0, "{suite}: {}", aspect.name());
    }
    // The suite has 60 events: by the engine, by the queue while the pod waits, and by the queue during its attempt.
    assert!(compared(&report, "dra-hints", Aspect::Hints) > 2 * 60);
}

/// The version comes from the folder's name. Under 1.36 the same cases have to differ: no score of VolumeBinding, and no
/// driver that is missing.
#[test]
fn own_cases_of_1_37_match_under_that_version_alone() {
    let folder = own_corpus().with_file_name("conformance-1.37");
    let report = conformance::run(&folder, &Selection::default()).unwrap();
    check_match(&report, &SUITES_OF_1_37);
    let earlier =
        Selection { kubernetes_version: Some(KubernetesVersion::V1_36), ..Selection::default() };
    let report = conformance::run(&folder, &earlier).unwrap();
    for suite in &report.suites {
        assert_eq!(suite.status(), Status::Mismatch, "{}", suite.name);
    }
}

/// The scores of VolumeBinding (S-137-1 to S-137-14, S-137-16, S-137-17) and the nodes without a driver
/// (S-137-20 to S-137-28), by kube-scheduler with both gates on.
#[test]
fn the_recorded_corpus_of_1_37_matches() {
    let Some(corpus) = recorded::find("conformance-1.37") else { return };
    let report = conformance::run(&corpus, &Selection::default()).unwrap();
    check_match(&report, &SUITES_OF_1_37);
    let n_cases: usize = report.suites.iter().map(|suite| suite.n_cases).sum();
    assert!(n_cases >= 430, "{n_cases} cases");
}

/// The devices of each claim on each node, what is written, the expressions and the queueing hints.
#[test]
fn the_recorded_corpus_about_devices_matches() {
    let Some(corpus) = recorded::find("conformance-dra") else { return };
    let every = if cfg!(debug_assertions) { 5 } else { 1 };
    let report = conformance::run(&corpus, &Selection { every, ..Selection::default() }).unwrap();
    check_match(&report, &DEVICE_SUITES);
    assert!(compared(&report, "dra-sequence", Aspect::Allocations) > 0);
}

#[test]
fn the_recorded_corpus_matches() {
    let Some(corpus) = recorded::find("conformance") else { return };
    // An unoptimised build needs more than a minute for the whole corpus; `.ci/run` always replays all of it.
    let every = if cfg!(debug_assertions) { 5 } else { 1 };
    let report = conformance::run(&corpus, &Selection { every, ..Selection::default() }).unwrap();
    check_match(&report, &SUITES);
    for suite in &report.suites {
        let n_totals = suite.tallies.of(Aspect::Totals).compared;
        let (n_steps, least) = match suite.name.as_str() {
            // Ten cases of many steps, for which only the best nodes are recorded.
            "preemption-sequence" => (800, 80),
            // Many of the pods fit on no node.
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
        (case(null, "{}", r#"[{"expect": {}}]"#), "exactly one of its kinds"),
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
    let selection = Selection {
        suites: vec!["fit".to_owned()],
        every: 3,
        n_differences: 1,
        ..Selection::default()
    };
    let report = conformance::run(&own_corpus(), &selection).unwrap();
    assert_eq!((report.suites.len(), report.suites[0].n_cases, report.sampled_every), (1, 2, 3));
}
