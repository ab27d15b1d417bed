//! `docs/metrics.md`: its examples can be read by the programs that they are for, and name existing metrics. A unit
//! test checks its table of metrics.

use std::collections::BTreeSet;

use berth_server::config::Config;
use berth_server::config::Overrides;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// The YAML blocks of the page, each as text and as a value.
fn blocks() -> Vec<(&'static str, Value)> {
    let blocks = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let read = blocks.map(|text| {
        let value: Value =
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        (text, value)
    });
    read.collect()
}

/// Names of metrics in the first cells of the page's tables.
fn names() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn rules_alert_on_existing_metrics() {
    let blocks = blocks();
    let groups = blocks.iter().find_map(|(_, block)| block["groups"].as_array()).unwrap();
    let rules: Vec<&Value> =
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert_eq!(rules.len(), 3);
    let names = names();
    for rule in rules {
        let text = |key: &str| rule[key].as_str().unwrap_or_else(|| panic!("no `{key}`: {rule}"));
        assert!(text("alert").starts_with("Berth"), "{rule}");
        assert!(text("for").ends_with('m'), "{rule}");
        for key in ["summary", "description"] {
            assert!(rule["annotations"][key].is_string(), "{rule}");
        }
        assert!(rule["labels"]["severity"].is_string(), "{rule}");
        let expr = text("expr");
        let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let used: Vec<&str> = words.filter(|word| word.starts_with("berth_")).collect();
        assert!(!used.is_empty(), "{expr}");
        used.iter().for_each(|name| assert!(names.contains(name), "{name}: {expr}"));
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
            assert_eq!(expr.matches(open).count(), expr.matches(close).count(), "{expr}");
        }
    }
}

#[test]
fn scrapes_are_configured_for_both_kinds_of_histogram() {
    let blocks = blocks();
    let jobs: Vec<&Value> = blocks
        .iter()
        .filter_map(|(_, block)| block["scrape_configs"].as_array())
        .flatten()
        .collect();
    assert_eq!(jobs.len(), 2, "plain, and with TLS and a token");
    for job in &jobs {
        assert_eq!(job["scrape_native_histograms"], true, "{job}");
        assert_eq!(job["always_scrape_classic_histograms"], true, "{job}");
        assert!(job["static_configs"][0]["targets"][0].as_str().unwrap().ends_with(":7421"));
    }
    assert_eq!(jobs[1]["scheme"], "https");
    assert_eq!(jobs[1]["authorization"]["type"], "Bearer");
    assert!(jobs[1]["tls_config"]["ca_file"].is_string());
}

#[test]
fn the_configuration_of_traces_is_one() {
    let blocks = blocks();
    let (text, _) = blocks.iter().find(|(_, block)| block["kind"] == "BerthConfiguration").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.yaml");
    std::fs::write(&path, text).unwrap();
    let config = Config::resolve(Some(&path), &Overrides::default()).unwrap();
    let tracing = config.tracing.unwrap();
    assert_eq!(tracing.endpoint, "localhost:4317");
    assert_eq!(tracing.sampling_rate_per_million, 1_000);
}
