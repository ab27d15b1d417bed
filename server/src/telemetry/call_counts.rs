//! Finished gRPC calls by method and code: a fixed table of counters, made when first needed.

use std::sync::OnceLock;

use metrics::{Counter, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{CALLS, METADATA, key};

/// Every method that this server has. A name from outside would let a caller grow the table.
const METHODS: [&str; 20] = [
    "/berth.v1.ClusterService/Sync",
    "/berth.v1.ClusterService/Apply",
    "/berth.v1.ClusterService/GetCluster",
    "/berth.v1.ClusterService/ListNodes",
    "/berth.v1.ClusterService/ListPods",
    "/berth.v1.PlacementService/Place",
    "/berth.v1.PlacementService/PlaceBatch",
    "/berth.v1.PlacementService/PlaceStream",
    "/berth.v1.PlacementService/Explain",
    "/berth.v1.PreemptionService/Preempt",
    "/berth.v1.PreemptionService/ListCandidates",
    "/berth.v1.SessionService/Open",
    "/berth.v1.SessionService/Apply",
    "/berth.v1.SessionService/Commit",
    "/berth.v1.SessionService/Close",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "other",
];

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
    recorder: PrometheusRecorder,
    counters: [[OnceLock<Counter>; CODES.len()]; METHODS.len()],
}

impl CallCounts {
    pub(super) fn new(recorder: PrometheusRecorder) -> CallCounts {
        CallCounts {
            recorder,
            counters: std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())),
        }
    }

    /// Counts one finished call; `path` as in HTTP/2's `:path`, `code` as in `grpc-status`.
    pub fn count(&self, path: &str, code: i32) {
        let method = METHODS.iter().position(|&method| method == path).unwrap_or(METHODS.len() - 1);
        let code = usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(UNKNOWN);
        self.counters[method][code]
            .get_or_init(|| {
                self.recorder.register_counter(
                    &key(CALLS, &[("method", METHODS[method]), ("code", CODES[code])]),
                    &METADATA,
                )
            })
            .increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn every_method_of_the_descriptors_is_in_the_table() {
        use prost::Message as _;
        let files = DescriptorNames::decode(berth_proto::FILE_DESCRIPTOR_SET).unwrap();
        let methods: Vec<String> = files.methods("berth.v1");
        assert!(methods.len() >= 9, "{methods:?}");
        for method in methods {
            assert!(METHODS.contains(&method.as_str()), "{method} is not counted");
        }
    }

    /// The little of `google.protobuf.FileDescriptorSet` that names methods.
    #[derive(Clone, PartialEq, prost::Message)]
    struct DescriptorNames {
        #[prost(message, repeated, tag = "1")]
        files: Vec<File>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct File {
        #[prost(string, tag = "2")]
        package: String,
        #[prost(message, repeated, tag = "6")]
        services: Vec<Service>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Service {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        methods: Vec<Method>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Method {
        #[prost(string, tag = "1")]
        name: String,
    }

    impl DescriptorNames {
        fn methods(&self, package: &str) -> Vec<String> {
            let files = self.files.iter().filter(|file| file.package == package);
            let services = files.flat_map(|file| &file.services);
            services
                .flat_map(|service| {
                    service
                        .methods
                        .iter()
                        .map(move |method| format!("/{package}.{}/{}", service.name, method.name))
                })
                .collect()
        }
    }
}
