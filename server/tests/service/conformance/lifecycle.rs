//! Worked examples of lifecycle decisions: always a few of the repository, and the large file when it is available.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use berth_server::conformance::report::{Corpus, Report, Status};
use berth_server::conformance::tally::{Aspect, Place};
use berth_server::conformance::{self, Selection};
use berth_server::lifecycle::{FUNCTIONS, Function};
use berth_testing::recorded;
use serde_json::{Value, json};

fn own_examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lifecycle-examples.json")
}

fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = FUNCTIONS.iter().map(|function| function.group).collect();
    groups.dedup();
    groups
}

/// Checks that the report has these groups, in order, and that every answer is as expected.
fn check_match(report: &Report, groups: &[&str], least: u64) {
    let names: Vec<&str> = report.suites.iter().map(|suite| suite.name.as_str()).collect();
    assert_eq!((report.corpus, &names[..]), (Corpus::Lifecycle, groups));
    for suite in &report.suites {
        assert_eq!(suite.status(), Status::Match, "{}: {:#?}", suite.name, suite.differences);
        let answers = usize::try_from(suite.tallies.of(Aspect::Answers).compared);
        assert_eq!(answers, Ok(suite.n_cases), "{}", suite.name);
    }
    let fields: u64 =
        report.suites.iter().map(|suite| suite.tallies.of(Aspect::Fields).compared).sum();
    assert!(fields >= least, "{fields} values compared");
}

fn run(path: &Path) -> Report {
    conformance::run(path, &Selection::default()).expect("examples")
}

#[test]
fn own_examples_match_and_name_every_function() {
    check_match(&run(&own_examples()), &groups(), 200);
    let text = fs::read_to_string(own_examples()).unwrap();
    let examples: Vec<Value> = serde_json::from_str(&text).unwrap();
    let named: BTreeSet<&str> =
        examples.iter().filter_map(|example| example["function"].as_str()).collect();
    let known: BTreeSet<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    assert_eq!(named, known);
}

#[test]
fn the_large_file_matches() {
    let Some(examples) = recorded::find("spec/lifecycle-examples.json") else { return };
    let report = run(&examples);
    // The large file has no `evaluation`, which is Berth's own combination of the decisions, and
    // no `claim`, whose rules were written after it.
    let groups: Vec<&str> =
        groups().into_iter().filter(|group| !["evaluation", "claim"].contains(group)).collect();
    check_match(&report, &groups, 2_000);
    let n_examples: usize = report.suites.iter().map(|suite| suite.n_cases).sum();
    assert!(n_examples >= 543, "{n_examples} examples");
}

/// Changes of examples, each of which the runner must notice and name.
#[test]
fn a_changed_example_is_a_difference() {
    let text = fs::read_to_string(own_examples()).unwrap();
    for (from, to, id, path) in [
        ("\"from\": \"Running\", ", "\"form\": \"Running\", ", "phase-5", ""),
        ("{\"legal\": false}", "{\"legal\": true}", "phase-5", "legal"),
        (
            "\"recheckAfterSeconds\": 70",
            "\"recheckAfterSeconds\": 71",
            "conditions-4",
            "recheckAfterSeconds",
        ),
        (
            "{\"conditions\": {\"Ready\": null,",
            "{\"conditions\": {\"Ready\": {\"status\": \"True\"},",
            "conditions-5",
            "conditions.Ready",
        ),
        (
            "\"containersToStart\": [\"main\", \"log\"]",
            "\"containersToStart\": [\"log\", \"main\"]",
            "restart-4",
            "containersToStart[0]",
        ),
        (
            "\"containersToKill\": [{\"name\": \"log\"",
            "\"containersToKill\": [{\"name\": \"main\"",
            "restart-4",
            "containersToKill",
        ),
        (
            "\"nodesPerSecond\": 0.01}",
            "\"nodesPerSecond\": 0.010002}",
            "node-failure-2",
            "zones.a.nodesPerSecond",
        ),
        (
            "\"disruptedPods\": {\"a\": \"2026-03-01T09:00:00Z\"}, \"cond",
            "\"disruptedPods\": {}, \"cond",
            "pdb-1",
            "disruptedPods",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let directory = tempfile::tempdir().unwrap();
        let changed = directory.path().join("examples.json");
        fs::write(&changed, text.replacen(from, to, 1)).unwrap();
        let report = run(&changed);
        let mut differences = report.suites.iter().flat_map(|suite| &suite.differences);
        let found = differences.any(|(case, difference)| {
            let Place::Answer { path: found, requirements, .. } = &difference.place else {
                return false;
            };
            case == id && found == path && !requirements.is_empty()
        });
        assert!(found && !report.is_match(), "{to}");
    }
}

#[test]
fn groups_are_chosen_and_sampled() {
    let suites = vec!["phase".to_owned()];
    let selection = Selection { suites, every: 2, ..Selection::default() };
    let report = conformance::run(&own_examples(), &selection).unwrap();
    assert_eq!((report.suites.len(), report.suites[0].n_cases, report.sampled_every), (1, 3, 2));
    let unknown = Selection { suites: vec!["phases".to_owned()], ..Selection::default() };
    let error = conformance::run(&own_examples(), &unknown).unwrap_err().to_string();
    assert!(error.starts_with("suite `phases` is not in `"), "{error}");
    assert!(error.contains("`, which has: evaluation, phase, "), "{error}");
}

/// A function answers or refuses any request: it never panics, and no sum or product overflows.
#[test]
fn mangled_requests_are_answered_or_refused() {
    let recorded = recorded::find("spec/lifecycle-examples.json");
    let text = fs::read_to_string(recorded.unwrap_or_else(own_examples)).unwrap();
    let examples: Vec<Value> = serde_json::from_str(&text).unwrap();
    let hostile = [
        json!(null),
        json!(-1),
        json!(0),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(i32::MIN),
        json!(i32::MAX),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("99999999999999999999"),
        json!("9999-12-31T23:59:59Z"),
        json!("0001-01-01T00:00:00Z"),
        json!("0000-01-01T00:00:00Z"),
        json!([]),
        json!({}),
        json!(true),
    ];
    let (mut n_answered, mut n_refused) = (0_u32, 0_u32);
    for example in &examples {
        let function = Function::named(example["function"].as_str().unwrap()).unwrap();
        let mut pointers = Vec::new();
        collect_pointers(&example["input"], String::new(), &mut pointers);
        for pointer in pointers {
            let mut input = example["input"].clone();
            for value in &hostile {
                *input.pointer_mut(&pointer).unwrap() = value.clone();
                match function.decide(&input) {
                    Ok(_) => n_answered += 1,
                    Err(_) => n_refused += 1,
                }
            }
        }
    }
    assert!(n_answered > 1_000 && n_refused > 1_000, "{n_answered} answered, {n_refused} refused");
}

/// The JSON pointers of all values inside `value`.
fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect_pointers(value, format!("{at}/{key}"), pointers);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                collect_pointers(element, format!("{at}/{index}"), pointers);
            }
        }
        _ => {}
    }
    if !at.is_empty() {
        pointers.push(at);
    }
}
