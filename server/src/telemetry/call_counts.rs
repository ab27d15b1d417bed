//! gRPC calls: finished calls by method and code, and their duration by method. Series are made when a method first
//! finishes.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};
use rustc_hash::FxHashMap;

use super::Registry;
use super::description::{DURATION_BUCKETS, Description};

const CALLS: Description = Description::counter(
    "berth_grpc_calls_total",
    &["method", "code"],
    "Finished gRPC calls, by method and code.",
);
const DURATION: Description = Description::seconds(
    "berth_grpc_call_duration_seconds",
    &["method"],
    &DURATION_BUCKETS,
    "Time from a call's headers to the last byte of its response, by method; for a stream, its whole life.",
);

/// Names of the values of `google.rpc.Code`, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
const UNKNOWN: usize = 2;

fn index_of(code: i32) -> usize {
    usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(UNKNOWN)
}

/// The name of a `google.rpc.Code` in gRPC's spelling; `UNKNOWN` for any other number.
pub(crate) fn code_name(code: i32) -> &'static str {
    CODES[index_of(code)]
}

/// Label of all methods that the server does not have.
const OTHER: &str = "other";

/// Metrics of gRPC calls.
pub struct CallCounts {
    registry: Registry,
}

/// Metrics of a closed set of methods: a counter for each (method, code) that has occurred, and a histogram for each
/// method that was called.
pub struct MethodCounts {
    registry: Registry,
    methods: FxHashMap<&'static str, Cells>,
    others: Cells,
}

#[derive(Default)]
struct Cells {
    by_code: [OnceLock<Counter>; CODES.len()],
    duration: OnceLock<Histogram>,
}

impl CallCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&CALLS, &DURATION];

    pub(super) fn new(registry: &Registry) -> CallCounts {
        CallCounts { registry: registry.clone() }
    }

    /// Gives the metrics of the methods at `paths`, written as in HTTP/2's `:path`.
    #[must_use]
    pub fn methods(&self, paths: impl Iterator<Item = &'static str>) -> MethodCounts {
        MethodCounts {
            registry: self.registry.clone(),
            methods: paths.map(|path| (path, Cells::default())).collect(),
            others: Cells::default(),
        }
    }
}

impl MethodCounts {
    /// Counts one finished call and records how long it took. `code` is the number in `grpc-status`. All methods
    /// outside the set are counted as `other`, for a name from outside must not add a series.
    pub fn finish(&self, path: &str, code: i32, elapsed: Duration) {
        let code = index_of(code);
        let (path, cells) = match self.methods.get_key_value(path) {
            Some((path, cells)) => (*path, cells),
            None => (OTHER, &self.others),
        };
        cells.by_code[code]
            .get_or_init(|| self.registry.counter(&CALLS, &[path, CODES[code]]))
            .increment(1);
        cells.duration.get_or_init(|| self.registry.histogram(&DURATION, &[path])).record(elapsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn unknown_methods_and_codes_share_one_counter() {
        let metrics = Metrics::new();
        let methods = metrics.calls().methods(std::iter::empty());
        methods.finish("/berth.v1.Unknown/Call", 99, Duration::from_millis(3));
        methods.finish("/berth.v2/Other", -1, Duration::from_millis(3));
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for line in [
            "berth_grpc_calls_total{method=\"other\",code=\"UNKNOWN\"} 2",
            "berth_grpc_call_duration_seconds_count{method=\"other\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn calls_are_counted_by_method() {
        let metrics = Metrics::new();
        let paths = ["/berth.v1.LifecycleService/EvaluatePods", "/grpc.health.v1.Health/Check"];
        let methods = metrics.calls().methods(paths.into_iter());
        for path in paths {
            methods.finish(path, 0, Duration::from_millis(3));
            let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
            let counted = format!("berth_grpc_calls_total{{method=\"{path}\",code=\"OK\"}} 1");
            assert!(text.contains(&counted), "{text}");
        }
    }
}
