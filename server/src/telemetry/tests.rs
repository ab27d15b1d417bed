//! Tests of the whole table of metrics: every row is rendered, and `docs/metrics.md` has the same rows.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_engine::Cluster;
use metrics::Unit;

use super::*;

/// Metrics with every series in use.
fn used() -> Metrics {
    let metrics = Metrics::new();
    let place = "/berth.v1.PlacementService/Place";
    metrics.calls().methods([place].into_iter()).finish(place, 0, Duration::from_micros(3));
    metrics.admission().lane("quick");
    metrics.auth().means("token");
    let _counts = metrics.expander().strategy("least-waste");
    metrics.record_place_duration(PlaceMethod::Place, Duration::from_micros(3));
    let schedule = metrics.schedule();
    schedule.count_attempt("berth", AttemptResult::Scheduled, Duration::from_micros(3));
    schedule.record_scheduled(Duration::from_millis(3), 17, true);
    schedule.record_extension_point(ExtensionPoint::Bind, true, "berth", Duration::from_millis(3));
    schedule.incoming("active", "UnscheduledPodAdd").increment(1);
    schedule.unschedulable("NodeResourcesFit", "berth").set(1.0);
    let pods = metrics.feed().kind("Pod");
    pods.count_event(FeedEvent::Added);
    pods.count_relist("gone");
    pods.count_error("cut");
    pods.count_refused();
    pods.set_staleness(Duration::ZERO);
    metrics
}

fn table() -> impl Iterator<Item = &'static Description> {
    TABLE.iter().flat_map(|group| group.iter().copied())
}

#[test]
fn every_metric_of_the_table_is_rendered_with_its_help() {
    let text = used().render(&Cluster::new().snapshot(), 0, None);
    for Description { name, kind, help, .. } in table() {
        let head = format!("# HELP {name} {help}\n# TYPE {name} {}\n{name}", kind.name());
        assert!(text.contains(&head), "{head} is not in\n{text}");
    }
    for line in [
        "berth_place_duration_seconds_bucket{method=\"Place\",le=\"0.000005\"} 1",
        "berth_grpc_calls_total{method=\"/berth.v1.PlacementService/Place\",code=\"OK\"} 1",
        "berth_grpc_call_duration_seconds_count{method=\"/berth.v1.PlacementService/Place\"} 1",
        "berth_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 1",
        "berth_pod_scheduling_attempts_bucket{le=\"16\"} 0",
        "berth_pod_scheduled_after_flush_total 1",
        "berth_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",status=\"Success\",profile=\"berth\"} 1",
        "berth_queue_incoming_pods_total{queue=\"active\",event=\"UnscheduledPodAdd\"} 1",
        "berth_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"berth\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn outcomes_are_counted_apart() {
    let metrics = Metrics::new();
    metrics.count_decision(Err(&EngineError::Cancelled), false);
    metrics.count_refused(2);
    metrics.count_deltas(5, 1);
    let staleness = Some(Duration::from_millis(1500));
    let text = metrics.render(&Cluster::new().snapshot(), 0, staleness);
    let build = format!("berth_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    for line in [
        "berth_placements_total{outcome=\"refused\"} 3",
        "berth_placements_total{outcome=\"placed\"} 0",
        "berth_deltas_total{outcome=\"applied\"} 5",
        "berth_deltas_total{outcome=\"rejected\"} 1",
        "berth_staleness_seconds 1.5",
        &build,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn names_have_the_unit_and_kind_of_their_metric() {
    let mut names = BTreeSet::new();
    for Description { name, kind, unit, labels, help } in table() {
        assert!(names.insert(*name), "{name} is there twice");
        assert!(help.ends_with('.') && !help.contains('|'), "{name}: {help}");
        assert_eq!(name.ends_with("_total"), kind.name() == "counter", "{name}");
        let measured = name.strip_suffix("_total").unwrap_or(name);
        assert_eq!(measured.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
        assert_eq!(name.ends_with("_bytes"), *unit == Unit::Bytes, "{name}");
        assert!(name.starts_with("berth_") || name.starts_with("process_"), "{name}");
        assert!(!labels.contains(&"le"), "{name}");
    }
}

/// The page's table rows whose first cell is the name of a metric, each as its cells.
fn documented() -> Vec<Vec<String>> {
    let page = include_str!("../../../docs/metrics.md");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| `berth_") || line.starts_with("| `process_"));
    let cells = rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    cells.collect()
}

#[test]
fn the_page_has_the_table_and_nothing_else() {
    let mut expected: Vec<Vec<String>> = table()
        .map(|Description { name, kind, labels, help, .. }| {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            vec![format!("`{name}`"), kind.name().to_owned(), labels.join(", "), (*help).to_owned()]
        })
        .collect();
    let mut documented = documented();
    documented.sort();
    expected.sort();
    for row in &expected {
        assert!(documented.contains(row), "docs/metrics.md lacks:\n| {} |", row.join(" | "));
    }
    assert_eq!(documented, expected);
}
