//! Latencies of a real API server, by kind of request: the medians of the successful recorded exchanges.

use std::time::Duration;

/// Method, last segment of the path, or the collection of an object; empty for all others of the method. Time from the
/// request to the end of its response, in ms.
const LATENCIES: [(&str, &str, u64); 9] = [
    ("GET", "", 6),
    ("POST", "binding", 8),
    ("POST", "eviction", 13),
    ("POST", "pods", 11),
    ("POST", "", 6),
    ("PATCH", "status", 9),
    ("PATCH", "", 7),
    ("PUT", "", 8),
    ("DELETE", "", 10),
];

/// Latency of a request; zero for methods that were not recorded.
pub(super) fn latency_of(method: &str, target: &str) -> Duration {
    let ms = row_of(method, target).map_or(0, |row| LATENCIES[row].2);
    Duration::from_millis(ms)
}

/// The row of [`LATENCIES`] that is about a request.
fn row_of(method: &str, target: &str) -> Option<usize> {
    let path = target.split('?').next().unwrap_or(target);
    let kind = path.rsplit('/').next().unwrap_or_default();
    LATENCIES.iter().position(|(m, k, _)| *m == method && (k.is_empty() || *k == kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::recorded;
    use serde_json::Value;

    /// The recorded requests that succeeded, with their latencies in ms; without watches, which have no end of their own.
    fn exchanges() -> Option<Vec<(String, String, u64)>> {
        let folder = recorded::find("data/apiserver")?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let scenario: Value =
                serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for exchange in scenario["exchanges"].as_array().into_iter().flatten() {
                let (request, response) = (&exchange["request"], &exchange["response"]);
                let is_success = response["status"].as_u64().is_some_and(|status| status < 300);
                let Some(seconds) = response["after_s"].as_f64().filter(|_| is_success) else {
                    continue;
                };
                let text = |field: &str| request[field].as_str().unwrap().to_owned();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a few ms"
                )]
                let ms = (seconds * 1e3).round() as u64;
                found.push((text("method"), text("target"), ms));
            }
        }
        Some(found)
    }

    #[test]
    fn the_latencies_are_those_of_the_recordings() {
        let Some(exchanges) = exchanges() else { return };
        let mut recorded = vec![Vec::new(); LATENCIES.len()];
        for (method, target, ms) in exchanges {
            recorded[row_of(&method, &target).unwrap()].push(ms);
        }
        for (row, mut recorded) in LATENCIES.into_iter().zip(recorded) {
            recorded.sort_unstable();
            let median = recorded[recorded.len() / 2];
            assert!(median.abs_diff(row.2) <= 1, "{row:?}: {median} ms of {recorded:?}");
        }
    }

    #[test]
    fn a_request_has_the_latency_of_its_kind() {
        let ms = |method, target| latency_of(method, target).as_millis();
        assert_eq!(ms("POST", "/api/v1/namespaces/a/pods/b/binding"), 8);
        assert_eq!(ms("POST", "/api/v1/namespaces/a/pods?fieldManager=x"), 11);
        assert_eq!(ms("POST", "/apis/events.k8s.io/v1/namespaces/a/events"), 6);
        assert_eq!(ms("PATCH", "/api/v1/namespaces/a/pods/b/status"), 9);
        assert_eq!(ms("DELETE", "/api/v1/namespaces/a/pods/b"), 10);
        assert_eq!(ms("OPTIONS", "/"), 0);
    }
}
