//! `EvaluateProbe`: the result of one attempt of a probe (L-PROBE-2 to L-PROBE-6).

use berth_proto::berth_v1::{EvaluateProbeRequest, EvaluateProbeResponse, ProbeObservation};

use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Mechanism of a probe (L-PROBE-1).
    enum Mechanism {
        /// A command in the container.
        Exec = "exec",
        /// An HTTP request.
        HttpGet = "httpGet",
        /// A TCP connection.
        TcpSocket = "tcpSocket",
        /// A gRPC health check.
        Grpc = "grpc",
    }

    /// Result of an attempt.
    enum AttemptResult {
        /// A success, which counts for `successThreshold`.
        Success = "Success",
        /// A failure, which counts for `failureThreshold`.
        Failure = "Failure",
        /// No result: it neither counts nor interrupts a run of equal results (L-PROBE-6). The node agent makes up to
        /// three attempts in a tick before it discards the tick (L-PROBE-17).
        Discarded = "Discarded",
    }

    /// Reason why there was no response.
    enum AttemptError {
        /// No response came in time.
        Timeout = "Timeout",
        /// No process listens on the port.
        ConnectionRefused = "ConnectionRefused",
        /// The container has no port of that name.
        UnresolvedPort = "UnresolvedPort",
        /// The container runtime could not run the command.
        RuntimeError = "RuntimeError",
        /// The server does not know the health service.
        Unimplemented = "Unimplemented",
    }

    /// Target of an HTTP redirect.
    enum Redirect {
        /// The host of the request.
        SameHost = "SameHost",
        /// Another host.
        OtherHost = "OtherHost",
    }
}

/// Limit on redirects that are followed; one more fails the attempt (L-PROBE-3).
const MAX_REDIRECTS: i32 = 9;
/// Range of HTTP status codes.
const HTTP_STATUSES: std::ops::Range<i32> = 100..1000;
/// The only gRPC health status that succeeds (L-PROBE-5).
const SERVING: &str = "SERVING";

/// `EvaluateProbe`: the result of one attempt.
///
/// # Errors
/// [`ModelError`] for an unknown word, an observation that lacks a field of its mechanism or has one of another
/// mechanism, a response together with an error, and an error that the mechanism cannot have.
pub fn evaluate_probe(request: &EvaluateProbeRequest) -> Result<EvaluateProbeResponse, ModelError> {
    let mechanism = Mechanism::parse(&request.mechanism, "mechanism")?;
    let raw = request.raw.as_ref().ok_or_else(|| ModelError::new("raw", "required"))?;
    let result = judge(mechanism, raw).map_err(|error| error.under("raw"))?;
    Ok(EvaluateProbeResponse { result: result.word().to_owned() })
}

fn judge(mechanism: Mechanism, raw: &ProbeObservation) -> Result<AttemptResult, ModelError> {
    for (field, of, is_given) in [
        ("exitCode", Mechanism::Exec, raw.exit_code.is_some()),
        ("statusCode", Mechanism::HttpGet, raw.status_code.is_some()),
        ("redirect", Mechanism::HttpGet, !raw.redirect.is_empty()),
        ("redirectCount", Mechanism::HttpGet, raw.redirect_count.is_some()),
        ("connected", Mechanism::TcpSocket, raw.connected.is_some()),
        ("closedByPeer", Mechanism::TcpSocket, raw.closed_by_peer.is_some()),
        ("status", Mechanism::Grpc, !raw.status.is_empty()),
    ] {
        if is_given && mechanism != of {
            let reason = format!("is not observed by `{}`", mechanism.word());
            return Err(ModelError::new(field, reason));
        }
    }
    if !raw.error.is_empty() {
        let error = AttemptError::parse(&raw.error, "error")?;
        if has_answer(raw) {
            return Err(ModelError::new("error", "must be empty beside a response"));
        }
        return of_error(mechanism, error);
    }
    let is_success = match mechanism {
        Mechanism::Exec => required(raw.exit_code, "exitCode")? == 0,
        Mechanism::HttpGet => is_http_success(raw)?,
        // A peer that closes the connection at once makes no difference (L-PROBE-4).
        Mechanism::TcpSocket => required(raw.connected, "connected")?,
        Mechanism::Grpc if raw.status.is_empty() => {
            return Err(ModelError::new("status", "required"));
        }
        Mechanism::Grpc => raw.status == SERVING,
    };
    Ok(if is_success { AttemptResult::Success } else { AttemptResult::Failure })
}

/// Result of an attempt without a response.
fn of_error(mechanism: Mechanism, error: AttemptError) -> Result<AttemptResult, ModelError> {
    match (mechanism, error) {
        // L-PROBE-6.
        (Mechanism::Exec, AttemptError::RuntimeError)
        | (Mechanism::HttpGet | Mechanism::TcpSocket, AttemptError::UnresolvedPort) => {
            Ok(AttemptResult::Discarded)
        }
        // L-PROBE-2, L-PROBE-3, L-PROBE-4; for a gRPC probe every error is a failure (L-PROBE-5).
        (_, AttemptError::Timeout)
        | (Mechanism::HttpGet | Mechanism::TcpSocket, AttemptError::ConnectionRefused)
        | (Mechanism::Grpc, _) => Ok(AttemptResult::Failure),
        (Mechanism::Exec | Mechanism::HttpGet | Mechanism::TcpSocket, _) => {
            let (error, mechanism) = (error.word(), mechanism.word());
            Err(ModelError::new("error", format!("`{error}` is not an error of `{mechanism}`")))
        }
    }
}

/// Whether the HTTP response counts as success. At most ten requests are made, so a tenth redirect fails. A redirect to
/// another host is not followed; its own status counts (L-PROBE-3).
fn is_http_success(raw: &ProbeObservation) -> Result<bool, ModelError> {
    let redirect = match raw.redirect.as_str() {
        "" => None,
        word => Some(Redirect::parse(word, "redirect")?),
    };
    let n_followed = raw.redirect_count.unwrap_or_default();
    if n_followed < 0 {
        return Err(ModelError::new("redirectCount", "is negative"));
    }
    if n_followed > MAX_REDIRECTS {
        return Ok(false);
    }
    let status = required(raw.status_code, "statusCode")?;
    if !HTTP_STATUSES.contains(&status) {
        return Err(ModelError::new("statusCode", format!("`{status}` is not a status code")));
    }
    if redirect == Some(Redirect::OtherHost) && !(300..400).contains(&status) {
        let reason = format!("`{status}` is not a redirect to another host");
        return Err(ModelError::new("statusCode", reason));
    }
    Ok((200..400).contains(&status))
}

fn required<T>(value: Option<T>, field: &str) -> Result<T, ModelError> {
    value.ok_or_else(|| ModelError::new(field, "required"))
}

/// Whether the observation has any response.
fn has_answer(raw: &ProbeObservation) -> bool {
    raw.exit_code.is_some()
        || raw.status_code.is_some()
        || raw.connected == Some(true)
        || !raw.status.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(mechanism: &str, raw: &str) -> Result<String, String> {
        let json = format!(r#"{{"mechanism": "{mechanism}", "raw": {raw}}}"#);
        let request: EvaluateProbeRequest = serde_json::from_str(&json).unwrap();
        evaluate_probe(&request).map(|answer| answer.result).map_err(|error| error.to_string())
    }

    /// L-PROBE-2 to L-PROBE-6: every mechanism with every error; `-` marks a combination that cannot occur.
    #[test]
    fn errors() {
        let rows = [
            ("exec", ["Failure", "-", "-", "Discarded", "-"]),
            ("httpGet", ["Failure", "Failure", "Discarded", "-", "-"]),
            ("tcpSocket", ["Failure", "Failure", "Discarded", "-", "-"]),
            ("grpc", ["Failure"; 5]),
        ];
        for (mechanism, results) in rows {
            for (error, expected) in AttemptError::WORDS.iter().zip(results) {
                let answer = evaluate(mechanism, &format!(r#"{{"error": "{error}"}}"#));
                match expected {
                    "-" => assert_eq!(
                        answer.unwrap_err(),
                        format!("`raw.error`: `{error}` is not an error of `{mechanism}`")
                    ),
                    expected => assert_eq!(answer.unwrap(), expected, "{mechanism} {error}"),
                }
            }
        }
    }

    /// L-PROBE-4.
    #[test]
    fn connections() {
        for (connected, expected) in [(true, "Success"), (false, "Failure")] {
            for closed in [true, false] {
                let raw = format!(r#"{{"connected": {connected}, "closedByPeer": {closed}}}"#);
                assert_eq!(evaluate("tcpSocket", &raw).unwrap(), expected);
            }
        }
    }

    /// L-PROBE-3: a tenth redirect fails with any last status; a redirect to another host counts by its own status.
    #[test]
    fn redirects() {
        let status = |count: i32, host: &str, status: i32| {
            let raw = format!(
                r#"{{"redirect": "{host}", "redirectCount": {count}, "statusCode": {status}}}"#
            );
            evaluate("httpGet", &raw).unwrap()
        };
        assert_eq!(status(9, "SameHost", 400), "Failure");
        assert_eq!(status(9, "SameHost", 100), "Failure");
        assert_eq!(status(9, "SameHost", 999), "Failure");
        assert_eq!(status(9, "OtherHost", 302), "Success");
        assert_eq!(status(10, "OtherHost", 302), "Failure");
        assert_eq!(evaluate("httpGet", r#"{"redirectCount": 10}"#).unwrap(), "Failure");
    }

    /// L-PROBE-5: the status `UNKNOWN` is a failure (L-PROBE-6).
    #[test]
    fn grpc_statuses() {
        for status in ["UNKNOWN", "SERVICE_UNKNOWN", "serving"] {
            let raw = format!(r#"{{"status": "{status}"}}"#);
            assert_eq!(evaluate("grpc", &raw).unwrap(), "Failure");
        }
    }

    #[test]
    fn bad_input_names_its_field() {
        for (mechanism, raw, expected) in [
            (
                "http",
                "{}",
                "`mechanism`: unknown value `http`: not one of `exec`, `httpGet`, `tcpSocket`, `grpc`",
            ),
            ("exec", "null", "`raw`: required"),
            ("exec", "{}", "`raw.exitCode`: required"),
            ("httpGet", "{}", "`raw.statusCode`: required"),
            ("tcpSocket", "{}", "`raw.connected`: required"),
            ("grpc", "{}", "`raw.status`: required"),
            ("httpGet", r#"{"redirectCount": -1}"#, "`raw.redirectCount`: is negative"),
            (
                "httpGet",
                r#"{"statusCode": 302, "redirect": "Host"}"#,
                "`raw.redirect`: unknown value `Host`: not one of `SameHost`, `OtherHost`",
            ),
            (
                "httpGet",
                r#"{"statusCode": 200, "redirect": "OtherHost"}"#,
                "`raw.statusCode`: `200` is not a redirect to another host",
            ),
            ("httpGet", r#"{"statusCode": -5}"#, "`raw.statusCode`: `-5` is not a status code"),
            ("httpGet", r#"{"statusCode": 1000}"#, "`raw.statusCode`: `1000` is not a status code"),
            (
                "exec",
                r#"{"exitCode": 0, "statusCode": 500}"#,
                "`raw.statusCode`: is not observed by `exec`",
            ),
            (
                "grpc",
                r#"{"connected": false, "error": "Timeout"}"#,
                "`raw.connected`: is not observed by `grpc`",
            ),
            (
                "tcpSocket",
                r#"{"connected": true, "error": "Timeout"}"#,
                "`raw.error`: must be empty beside a response",
            ),
            (
                "exec",
                r#"{"exitCode": 0, "error": "Timeout"}"#,
                "`raw.error`: must be empty beside a response",
            ),
        ] {
            assert_eq!(evaluate(mechanism, raw).unwrap_err(), expected);
        }
    }
}
