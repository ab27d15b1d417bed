//! Finished gRPC calls by method and code: a fixed table of counters, made when first needed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use berth_proto::METHODS;
use metrics::{Counter, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{CALLS, METADATA, key};

/// The methods of the standard services. Together with `berth.v1`'s these are all that this server has: a name from outside
/// would let a caller grow the table.
const STANDARD: [&str; 4] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Stands for every other method.
const OTHER: &str = "other";

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

/// One counter a (method, code) that has occurred.
pub struct CallCounts {
    recorder: Arc<PrometheusRecorder>,
    methods: HashMap<&'static str, MethodCounts>,
    others: MethodCounts,
}

type MethodCounts = [OnceLock<Counter>; CODES.len()];

impl CallCounts {
    pub(super) fn new(recorder: Arc<PrometheusRecorder>) -> CallCounts {
        let methods = METHODS.iter().chain(&STANDARD);
        let methods = methods.map(|method| (*method, MethodCounts::default())).collect();
        CallCounts { recorder, methods, others: MethodCounts::default() }
    }

    /// Counts one finished call; `path` as in HTTP/2's `:path`, `code` as in `grpc-status`.
    pub fn count(&self, path: &str, code: i32) {
        let (method, counts) = match self.methods.get_key_value(path) {
            Some((method, counts)) => (*method, counts),
            None => (OTHER, &self.others),
        };
        let code = usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(UNKNOWN);
        counts[code]
            .get_or_init(|| {
                let labels = [("method", method), ("code", CODES[code])];
                self.recorder.register_counter(&key(CALLS, &labels), &METADATA)
            })
            .increment(1);
    }
}

#[cfg(test)]
mod tests {
    use crate::telemetry::Metrics;

    #[test]
    fn unknown_methods_and_codes_share_one_counter() {
        let metrics = Metrics::new();
        metrics.calls().count("/nobody/Knows", 99);
        metrics.calls().count("/berth.v2/Other", -1);
        let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
        assert!(
            text.contains("berth_grpc_calls_total{method=\"other\",code=\"UNKNOWN\"} 2"),
            "{text}"
        );
    }

    #[test]
    fn every_service_is_counted_by_its_methods() {
        let metrics = Metrics::new();
        for path in ["/berth.v1.LifecycleService/EvaluatePods", "/grpc.health.v1.Health/Check"] {
            metrics.calls().count(path, 0);
            let text = metrics.render(&berth_engine::Cluster::new().snapshot(), 0, None);
            let counted = format!("berth_grpc_calls_total{{method=\"{path}\",code=\"OK\"}} 1");
            assert!(text.contains(&counted), "{text}");
        }
    }
}
