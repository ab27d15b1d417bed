//! A probe's numbers, defaults applied (L-PROBE-7, L-PROBE-19, L-PROBE-21).

use core::net::IpAddr;

use berth_proto::berth_v1::{DefaultProbeRequest, DefaultProbeResponse, DefaultedProbe};
use berth_proto::core_v1::{GrpcAction, HttpGetAction, Probe, ProbeHandler};

use crate::lifecycle::reading::Seconds;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

const TIMEOUT: i32 = 1;
const PERIOD: i32 = 10;
const SUCCESS_THRESHOLD: i32 = 1;
const FAILURE_THRESHOLD: i32 = 3;

const PATH: &str = "/";
const SCHEME: &str = "HTTP";

/// Delay, period and thresholds of a probe; none is negative, and the thresholds are at least 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Seconds from the container's start to the first run.
    pub(crate) initial_delay: Seconds,
    /// Seconds from one run to the next.
    pub(crate) period: Seconds,
    pub(crate) success_threshold: i32,
    pub(crate) failure_threshold: i32,
}

words! {
    /// Origin of the host that a probe's requests go to (L-PROBE-21).
    enum HostOrigin {
        /// The probe names the host.
        Probe = "Probe",
        /// The host is the pod's IP address.
        PodIp = "PodIP",
    }
}

/// `DefaultProbe`: the probe with its defaults; a zero counts as unset (L-PROBE-7). The defaults of an HTTP request are
/// the path `/`, the scheme `HTTP` and, as for a TCP connection, the pod's IP address as host (L-PROBE-21).
///
/// # Errors
/// [`ModelError`] for a missing probe, for a negative number, and for `podIP` that is no IP address.
pub fn default_probe(request: &DefaultProbeRequest) -> Result<DefaultProbeResponse, ModelError> {
    let probe = request.probe.as_ref().ok_or_else(|| ModelError::new("probe", "required"))?;
    let settings = Settings::of(probe).map_err(|error| error.under("probe"))?;
    let pod_ip = request.pod_ip.as_str();
    if !pod_ip.is_empty() && pod_ip.parse::<IpAddr>().is_err() {
        let reason = format!("`{}` is not an IP address", clip(pod_ip));
        return Err(ModelError::new("podIP", reason));
    }
    let mut probe = defaulted(probe);
    let origin = host_origin(&probe);
    for host in [
        probe.http_get.as_mut().map(|request| &mut request.host),
        probe.tcp_socket.as_mut().map(|request| &mut request.host),
    ]
    .into_iter()
    .flatten()
    .filter(|host| host.is_empty())
    {
        pod_ip.clone_into(host);
    }
    let host = match origin {
        Some(HostOrigin::Probe) => named_host(&probe).unwrap_or_default().to_owned(),
        Some(HostOrigin::PodIp) => pod_ip.to_owned(),
        None => String::new(),
    };
    Ok(DefaultProbeResponse {
        probe: Some(probe),
        failure_after_seconds: settings.failure_after(),
        host,
        host_from: origin.map(|origin| origin.word().to_owned()).unwrap_or_default(),
    })
}

/// Origin of the probe's host; `None` for a probe that sends no request. A gRPC probe cannot name a host.
fn host_origin(probe: &DefaultedProbe) -> Option<HostOrigin> {
    if named_host(probe).is_some() {
        return Some(HostOrigin::Probe);
    }
    let sends = probe.http_get.is_some() || probe.tcp_socket.is_some() || probe.grpc.is_some();
    sends.then_some(HostOrigin::PodIp)
}

/// The host that the probe names.
fn named_host(probe: &DefaultedProbe) -> Option<&str> {
    let hosts = [
        probe.http_get.as_ref().map(|request| request.host.as_str()),
        probe.tcp_socket.as_ref().map(|request| request.host.as_str()),
    ];
    hosts.into_iter().flatten().find(|host| !host.is_empty())
}

/// The probe with its defaults; negative numbers stay as they are.
pub(crate) fn defaulted(probe: &Probe) -> DefaultedProbe {
    let ProbeHandler { exec, http_get, tcp_socket, grpc } =
        probe.handler.clone().unwrap_or_default();
    DefaultedProbe {
        exec,
        http_get: http_get.map(|request| HttpGetAction {
            path: or(request.path, PATH),
            scheme: or(request.scheme, SCHEME),
            ..request
        }),
        tcp_socket,
        grpc: grpc
            .map(|check| GrpcAction { service: Some(check.service.unwrap_or_default()), ..check }),
        initial_delay_seconds: probe.initial_delay_seconds,
        timeout_seconds: unless_zero(probe.timeout_seconds, TIMEOUT),
        period_seconds: unless_zero(probe.period_seconds, PERIOD),
        success_threshold: unless_zero(probe.success_threshold, SUCCESS_THRESHOLD),
        failure_threshold: unless_zero(probe.failure_threshold, FAILURE_THRESHOLD),
        termination_grace_period_seconds: probe.termination_grace_period_seconds,
    }
}

impl Settings {
    /// Reads the numbers of a probe.
    ///
    /// # Errors
    /// [`ModelError`] at a negative number (L-PROBE-18).
    pub(crate) fn of(probe: &Probe) -> Result<Settings, ModelError> {
        for (field, number) in [
            ("initialDelaySeconds", probe.initial_delay_seconds),
            ("timeoutSeconds", probe.timeout_seconds),
            ("periodSeconds", probe.period_seconds),
            ("successThreshold", probe.success_threshold),
            ("failureThreshold", probe.failure_threshold),
        ] {
            if number < 0 {
                return Err(ModelError::new(field, format!("`{number}` is negative")));
            }
        }
        Ok(Settings {
            initial_delay: probe.initial_delay_seconds.into(),
            period: unless_zero(probe.period_seconds, PERIOD).into(),
            success_threshold: unless_zero(probe.success_threshold, SUCCESS_THRESHOLD),
            failure_threshold: unless_zero(probe.failure_threshold, FAILURE_THRESHOLD),
        })
    }

    /// Seconds from the start of a container until its probe has failed, if no attempt succeeds. A container that needs
    /// more time to start needs a startup probe with a larger threshold (L-PROBE-19).
    pub(crate) fn failure_after(self) -> Seconds {
        // The sum is below 2³¹ + 2⁶², so it never saturates.
        self.initial_delay.saturating_add(self.period.saturating_mul(self.failure_threshold.into()))
    }
}

fn unless_zero(number: i32, default: i32) -> i32 {
    if number == 0 { default } else { number }
}

fn or(text: String, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(json: &str) -> Result<DefaultProbeResponse, ModelError> {
        default_probe(&serde_json::from_str(json).unwrap())
    }

    /// L-PROBE-7, L-PROBE-21: given values stay.
    #[test]
    fn given_numbers_and_words_stay() {
        let answer = default(
            r#"{"probe": {"httpGet": {"scheme": "HTTPS", "host": "h"}, "grpc": {"port": 9}, "timeoutSeconds": 5,
                "periodSeconds": 7, "successThreshold": 2, "failureThreshold": 4, "initialDelaySeconds": 3}}"#,
        )
        .unwrap();
        let probe = answer.probe.unwrap();
        let request = probe.http_get.unwrap();
        assert_eq!((&*request.scheme, &*request.path, &*request.host), ("HTTPS", "/", "h"));
        assert_eq!(probe.grpc.unwrap().service.as_deref(), Some(""));
        assert_eq!((probe.timeout_seconds, probe.period_seconds), (5, 7));
        assert_eq!((probe.success_threshold, probe.failure_threshold), (2, 4));
        assert_eq!(answer.failure_after_seconds, 3 + 7 * 4);
    }

    /// L-PROBE-21: the host of the probe, else the pod's address; it is filled in if it is known.
    #[test]
    fn the_host_is_the_pods_address_unless_given() {
        let host = |probe: &str, pod_ip: &str| {
            let answer = default(&format!(r#"{{"probe": {probe}, "podIP": "{pod_ip}"}}"#)).unwrap();
            let probe = answer.probe.unwrap();
            let http = probe.http_get.map(|request| request.host);
            let filled = http.or(probe.tcp_socket.map(|request| request.host)).unwrap_or_default();
            format!("{} {} {filled}", answer.host_from, answer.host)
        };
        let http = r#"{"httpGet": {"port": 80}}"#;
        assert_eq!(host(http, "10.0.0.7"), "PodIP 10.0.0.7 10.0.0.7");
        assert_eq!(host(http, ""), "PodIP  ");
        assert_eq!(host(r#"{"httpGet": {"port": 80, "host": "db"}}"#, "10.0.0.7"), "Probe db db");
        assert_eq!(host(r#"{"tcpSocket": {"port": 80}}"#, "fd00::7"), "PodIP fd00::7 fd00::7");
        assert_eq!(host(r#"{"tcpSocket": {"port": 80, "host": "h"}}"#, ""), "Probe h h");
        assert_eq!(host(r#"{"grpc": {"port": 9}}"#, "10.0.0.7"), "PodIP 10.0.0.7 ");
        assert_eq!(host(r#"{"exec": {"command": ["true"]}}"#, "10.0.0.7"), "  ");
        let error = default(r#"{"probe": {}, "podIP": "db"}"#).unwrap_err();
        assert_eq!(error.to_string(), "`podIP`: `db` is not an IP address");
    }

    /// L-PROBE-19.
    #[test]
    fn the_largest_probe() {
        let probe = Probe {
            initial_delay_seconds: i32::MAX,
            period_seconds: i32::MAX,
            failure_threshold: i32::MAX,
            ..Probe::default()
        };
        let max = i64::from(i32::MAX);
        assert_eq!(Settings::of(&probe).unwrap().failure_after(), max + max * max);
    }

    #[test]
    fn bad_input_names_its_field() {
        assert_eq!(default("{}").unwrap_err().to_string(), "`probe`: required");
        let error = default(r#"{"probe": {"periodSeconds": -1}}"#).unwrap_err();
        assert_eq!(error.to_string(), "`probe.periodSeconds`: `-1` is negative");
    }
}
