use std::sync::atomic::Ordering;

use super::*;
use crate::telemetry::text;

const CALLS: Description = Description::counter("calls_total", &["who", "what"], "Calls.");
const DEPTH: Description = Description::gauge("depth", &[], "Depth.");

fn registry() -> Registry {
    Registry::new(&[&[&CALLS, &DEPTH]])
}

/// Labels and value of every counter of the first family.
fn read(registry: &Registry) -> Vec<(String, u64)> {
    let gathered = registry.gather();
    let read = gathered[0].series.iter().map(|series| match &series.cell {
        Cell::Counter(cell) => {
            let values: Vec<&str> = series.labels.iter().map(Label::value).collect();
            (values.join("/"), cell.load(Ordering::Relaxed))
        }
        Cell::Gauge(_) | Cell::Histogram(_) => panic!("no counter"),
    });
    read.collect()
}

#[test]
fn equal_labels_are_one_series() {
    let registry = registry();
    registry.counter(&CALLS, &["b", "x"]).increment(1);
    registry.counter(&CALLS, &["a", "y"]).increment(2);
    registry.counter(&CALLS, &["b", "x"]).increment(3);
    registry.gauge(&DEPTH, &[]).set(7.0);
    let gathered = registry.gather();
    let names: Vec<_> = gathered.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names, ["calls_total", "depth"]);
    assert_eq!(read(&registry), [("a/y".to_owned(), 2), ("b/x".to_owned(), 4)]);
}

#[test]
fn series_are_bounded() {
    let registry = registry();
    for i in 0..MAX_SERIES + 10 {
        registry.counter(&CALLS, &[&i.to_string(), "x"]).increment(1);
    }
    let read = read(&registry);
    assert_eq!(read.len(), MAX_SERIES + 1);
    assert!(read.contains(&("other/other".to_owned(), 10)), "{read:?}");
}

#[test]
fn a_counter_never_goes_back() {
    let registry = registry();
    let counter = registry.counter(&CALLS, &["a", "y"]);
    counter.absolute(5);
    counter.absolute(3);
    assert_eq!(read(&registry), [("a/y".to_owned(), 5)]);
}

#[test]
fn a_handle_of_another_kind_counts_nothing() {
    let registry = registry();
    registry.counter(&CALLS, &["a", "y"]).increment(1);
    registry.register_gauge(&CALLS.key(&["a", "y"]), &METADATA).set(7.0);
    registry.register_histogram(&DEPTH.key(&[]), &METADATA).record(7.0);
    assert_eq!(
        text::write(&registry.gather()),
        "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{who=\"a\",what=\"y\"} 1\n\
         # HELP depth Depth.\n# TYPE depth gauge\ndepth 0\n"
    );
}

/// The macros of `metrics` reach the registry if it is the recorder of the thread, for a metric of the table and for
/// one outside it.
#[test]
fn macros_count_in_the_registry() {
    let registry = registry();
    metrics::with_local_recorder(&registry, || {
        metrics::counter!("calls_total", "who" => "a", "what" => "y").increment(2);
        metrics::describe_gauge!("width", Unit::Bytes, "Width.");
        metrics::gauge!("width").increment(1.5);
    });
    metrics::counter!("calls_total", "who" => "a", "what" => "y").increment(40);
    registry.counter(&CALLS, &["a", "y"]).increment(1);
    assert_eq!(
        text::write(&registry.gather()),
        "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{who=\"a\",what=\"y\"} 3\n\
         # HELP width Width.\n# TYPE width gauge\nwidth 1.5\n"
    );
}
