//! `ValidateProbe`: whether a probe is well formed (L-PROBE-1, L-PROBE-18, L-PROBE-20, L-PROBE-21).

use berth_proto::berth_v1::{DefaultedProbe, ValidateProbeRequest, ValidateProbeResponse};
use berth_proto::core_v1::HttpGetAction;
use berth_proto::{IntOrString, IntOrStringValue};

use super::{ProbeType, settings};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;

const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
/// The longest name of a port.
const MAX_PORT_NAME: usize = 15;

/// `ValidateProbe`: the wrong fields of a probe; mechanisms first, in the order `exec`, `httpGet`, `tcpSocket`, `grpc`,
/// then numbers. Defaults replace zeroes before the checks (L-PROBE-7).
///
/// # Errors
/// [`ModelError`] for an unknown word or a missing probe. Faults of the probe are part of the response.
pub fn validate_probe(request: &ValidateProbeRequest) -> Result<ValidateProbeResponse, ModelError> {
    let r#type = ProbeType::parse(&request.probe_type, "probeType")?;
    let kind = ContainerKind::parse_or(&request.kind, ContainerKind::Regular, "kind")?;
    let probe = request.probe.as_ref().ok_or_else(|| ModelError::new("probe", "required"))?;
    let probe = settings::defaulted(probe);
    let mut wrong = Vec::new();
    // Ordinary init containers and ephemeral ones carry no probes (L-PROBE-20).
    if matches!(kind, ContainerKind::Init | ContainerKind::Ephemeral) {
        wrong.push("");
    }
    check_mechanism(&probe, &mut wrong);
    check_numbers(r#type, &probe, &mut wrong);
    let error_fields: Vec<String> = wrong.into_iter().map(str::to_owned).collect();
    Ok(ValidateProbeResponse { valid: error_fields.is_empty(), error_fields })
}

/// Checks that there is exactly one mechanism (L-PROBE-1); of several, all but the first are wrong.
fn check_mechanism(probe: &DefaultedProbe, wrong: &mut Vec<&'static str>) {
    let DefaultedProbe { exec, http_get, tcp_socket, grpc, .. } = probe;
    let present = [
        ("exec", exec.is_some()),
        ("httpGet", http_get.is_some()),
        ("tcpSocket", tcp_socket.is_some()),
        ("grpc", grpc.is_some()),
    ];
    let mut present = present.into_iter().filter(|(_, is_present)| *is_present);
    match present.next() {
        None => wrong.push(""),
        Some(("exec", _)) => {
            if exec.as_ref().is_some_and(|exec| exec.command.is_empty()) {
                wrong.push("exec.command");
            }
        }
        Some(("httpGet", _)) => http_get.iter().for_each(|request| check_http(request, wrong)),
        Some(("tcpSocket", _)) => {
            let port = tcp_socket.as_ref().and_then(|socket| socket.port.as_ref());
            if !is_port(port) {
                wrong.push("tcpSocket.port");
            }
        }
        Some(_) => {
            if grpc.as_ref().is_some_and(|check| !is_port_number(check.port)) {
                wrong.push("grpc.port");
            }
        }
    }
    wrong.extend(present.map(|(field, _)| field));
}

/// Checks scheme (`HTTP` or `HTTPS`, L-PROBE-21), port and header names of a request.
fn check_http(request: &HttpGetAction, wrong: &mut Vec<&'static str>) {
    if !is_port(request.port.as_ref()) {
        wrong.push("httpGet.port");
    }
    if !SCHEMES.contains(&request.scheme.as_str()) {
        wrong.push("httpGet.scheme");
    }
    if !request.http_headers.iter().all(|header| is_header_name(&header.name)) {
        wrong.push("httpGet.httpHeaders");
    }
}

/// Checks numbers (L-PROBE-18): none is negative; the success threshold of liveness and startup is 1; a grace period of
/// the probe's own is at least one second, and a readiness probe, which never kills, has none.
fn check_numbers(r#type: ProbeType, probe: &DefaultedProbe, wrong: &mut Vec<&'static str>) {
    let grace = probe.termination_grace_period_seconds;
    for (field, is_right) in [
        ("initialDelaySeconds", probe.initial_delay_seconds >= 0),
        ("timeoutSeconds", probe.timeout_seconds >= 0),
        ("periodSeconds", probe.period_seconds >= 0),
        ("successThreshold", r#type.may_need(probe.success_threshold)),
        ("failureThreshold", probe.failure_threshold >= 0),
        (
            "terminationGracePeriodSeconds",
            grace.is_none_or(|seconds| r#type.kills() && seconds >= 1),
        ),
    ] {
        if !is_right {
            wrong.push(field);
        }
    }
}

/// Whether a port is a number from 1 to 65535, or a name.
fn is_port(port: Option<&IntOrString>) -> bool {
    match port.and_then(IntOrString::value) {
        Some(IntOrStringValue::Int(number)) => is_port_number(number),
        Some(IntOrStringValue::String(name)) => is_port_name(name),
        None => false,
    }
}

fn is_port_number(number: i32) -> bool {
    (1..=65535).contains(&number)
}

/// Whether a name is valid for a port: up to 15 of `[a-z0-9-]`, at least one letter, no hyphen at either end and no two
/// in a row.
fn is_port_name(name: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= MAX_PORT_NAME
        && name.bytes().all(is_legal)
        && name.bytes().any(|b| b.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(r#type: &str, probe: &str, expected: &[&str]) {
        let json = format!(r#"{{"probeType": "{type}", "probe": {probe}}}"#);
        let answer = validate_probe(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(answer.error_fields, expected, "{json}");
        assert_eq!(answer.valid, expected.is_empty());
    }

    /// L-PROBE-18.
    #[test]
    fn numbers() {
        let tcp = |rest: &str| format!(r#"{{"tcpSocket": {{"port": 1}}{rest}}}"#);
        check("liveness", &tcp(""), &[]);
        check("readiness", &tcp(r#", "successThreshold": 3"#), &[]);
        check("startup", &tcp(r#", "successThreshold": 3"#), &["successThreshold"]);
        check("liveness", &tcp(r#", "successThreshold": -1"#), &["successThreshold"]);
        check("liveness", &tcp(r#", "terminationGracePeriodSeconds": 1"#), &[]);
        let grace = ["terminationGracePeriodSeconds"];
        check("liveness", &tcp(r#", "terminationGracePeriodSeconds": 0"#), &grace);
        check("readiness", &tcp(r#", "terminationGracePeriodSeconds": -1"#), &grace);
        check(
            "readiness",
            r#"{"initialDelaySeconds": -1, "timeoutSeconds": -1, "periodSeconds": -1, "successThreshold": -1, "failureThreshold": -1}"#,
            &[
                "",
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            ],
        );
    }

    /// L-PROBE-1, L-PROBE-21.
    #[test]
    fn mechanisms() {
        check("liveness", r#"{"exec": {}}"#, &["exec.command"]);
        check(
            "liveness",
            r#"{"exec": {}, "httpGet": {}, "grpc": {}}"#,
            &["exec.command", "httpGet", "grpc"],
        );
        check(
            "liveness",
            r#"{"httpGet": {"scheme": "http", "httpHeaders": [{"name": "a b"}]}}"#,
            &["httpGet.port", "httpGet.scheme", "httpGet.httpHeaders"],
        );
        check(
            "liveness",
            r#"{"httpGet": {"port": "http", "scheme": "HTTPS", "httpHeaders": [{"name": "X-A"}]}}"#,
            &[],
        );
        check("liveness", r#"{"grpc": {"port": 0}}"#, &["grpc.port"]);
        for (port, is_right) in [
            ("1", true),
            ("65535", true),
            ("0", false),
            ("65536", false),
            ("-1", false),
            (r#""a-1""#, true),
            (r#""123456789012345""#, false),
            (r#""a23456789012345""#, true),
            (r#""a234567890123456""#, false),
            (r#""A""#, false),
            (r#""-a""#, false),
            (r#""a-""#, false),
            (r#""a--b""#, false),
            (r#""""#, false),
        ] {
            let expected: &[&str] = if is_right { &[] } else { &["tcpSocket.port"] };
            check("startup", &format!(r#"{{"tcpSocket": {{"port": {port}}}}}"#), expected);
        }
    }

    /// L-PROBE-20.
    #[test]
    fn containers_without_probes() {
        let of = |kind: &str| {
            let json = format!(
                r#"{{"probeType": "liveness", "probe": {{"tcpSocket": {{"port": 1}}}}, "kind": "{kind}"}}"#
            );
            validate_probe(&serde_json::from_str(&json).unwrap()).map(|answer| answer.valid)
        };
        assert_eq!(of("regular"), Ok(true));
        assert_eq!(of("sidecar"), Ok(true));
        assert_eq!(of("init"), Ok(false));
        assert_eq!(of("ephemeral"), Ok(false));
        assert_eq!(of("Init").unwrap_err().field, "kind");
    }

    #[test]
    fn bad_input_names_its_field() {
        let error = |json: &str| validate_probe(&serde_json::from_str(json).unwrap()).unwrap_err();
        assert_eq!(error("{}").field, "probeType");
        assert_eq!(error(r#"{"probeType": "startup"}"#).to_string(), "`probe`: required");
    }
}
