//! Finished gRPC calls by method and code, and how long they took: a fixed table, made when first needed.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use berth_proto::METHODS;

use super::description::{DURATION_BUCKETS, Description};
use super::{Counter, Histogram, Registry};
use crate::grpc::method::{Method, STANDARD};

const CALLS: Description = Description::counter(
    "berth_grpc_calls_total",
    &["method", "code"],
    "Finished gRPC calls, by method and code.",
);
const DURATION: Description = Description::seconds(
    "berth_grpc_call_duration_seconds",
    &["method"],
    &DURATION_BUCKETS,
    "Time from a call's headers to the last byte of its answer, by method; a stream's whole life.",
);

/// Names of `google.rpc.Code`, by number.
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

/// The name of a `google.rpc.Code`, as gRPC writes it; `UNKNOWN` for a number that is none.
pub(crate) fn code_name(code: i32) -> &'static str {
    CODES[index_of(code)]
}

/// One counter a (method, code) that has occurred, one histogram a method that was called.
pub struct CallCounts {
    registry: Registry,
    methods: HashMap<&'static str, MethodCounts>,
    others: MethodCounts,
}

#[derive(Default)]
struct MethodCounts {
    by_code: [OnceLock<Counter>; CODES.len()],
    duration: OnceLock<Histogram>,
}

impl CallCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&CALLS, &DURATION];

    pub(super) fn new(registry: &Registry) -> CallCounts {
        let methods = METHODS.iter().chain(&STANDARD);
        let methods = methods.map(|method| (*method, MethodCounts::default())).collect();
        CallCounts { registry: registry.clone(), methods, others: MethodCounts::default() }
    }

    /// Counts one finished call, `code` as in `grpc-status`, and notes how long it took.
    pub(crate) fn finish(&self, method: &'static Method, code: i32, elapsed: Duration) {
        let code = index_of(code);
        let counts = self.of(method);
        counts.by_code[code]
            .get_or_init(|| self.registry.counter(&CALLS, &[method.path, CODES[code]]))
            .increment(1);
        counts
            .duration
            .get_or_init(|| self.registry.histogram(&DURATION, &[method.path]))
            .record_duration(elapsed);
    }

    fn of(&self, method: &Method) -> &MethodCounts {
        self.methods.get(method.path).unwrap_or(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::method;
    use crate::telemetry::Metrics;

    #[test]
    fn unknown_methods_and_codes_share_one_counter() {
        let metrics = Metrics::new();
        metrics.calls().finish(method::find("/nobody/Knows"), 99, Duration::from_millis(3));
        metrics.calls().finish(method::find("/berth.v2/Other"), -1, Duration::from_millis(3));
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        for line in [
            "berth_grpc_calls_total{method=\"other\",code=\"UNKNOWN\"} 2",
            "berth_grpc_call_duration_seconds_count{method=\"other\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn every_service_is_counted_by_its_methods() {
        let metrics = Metrics::new();
        for path in ["/berth.v1.LifecycleService/EvaluatePods", "/grpc.health.v1.Health/Check"] {
            metrics.calls().finish(method::find(path), 0, Duration::from_millis(3));
            let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
            let counted = format!("berth_grpc_calls_total{{method=\"{path}\",code=\"OK\"}} 1");
            assert!(text.contains(&counted), "{text}");
        }
    }
}
