//! `docs/metrics.md`: its examples can be read by the programs that they are for. A unit test checks its table of
//! metrics.

use berth_server::config::Config;
use berth_server::config::Overrides;
use serde_json::Value;

pub(super) const PAGE: &str = include_str!("../../../../docs/metrics.md");

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
