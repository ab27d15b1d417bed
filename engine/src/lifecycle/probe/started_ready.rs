//! `DeriveStartedReady`: whether a container counts as started and as ready (L-PROBE-10, L-PROBE-11, L-PROBE-14,
//! L-PROBE-16).

use berth_proto::berth_v1::{DeriveStartedReadyRequest, DeriveStartedReadyResponse};

use super::ProbeValue;
use crate::model::ModelError;

/// A container that started more than this many seconds before the node agent keeps its recorded status (L-PROBE-16).
const OLDER_BY: i64 = 10;

/// `DeriveStartedReady`: whether a container counts as started and as ready. A container that does not run is neither
/// (L-PROBE-14); a running container without probes is both (L-PROBE-11).
///
/// # Errors
/// [`ModelError`] for an unknown word, and for a failure of a probe that the container does not have.
pub fn derive_started_ready(
    request: &DeriveStartedReadyRequest,
) -> Result<DeriveStartedReadyResponse, ModelError> {
    let startup = result(request.startup_probe, &request.startup_result, "startupResult")?;
    let readiness = result(request.readiness_probe, &request.readiness_result, "readinessResult")?;
    let is_older =
        request.container_older_than_agent_by_seconds.is_some_and(|seconds| seconds > OLDER_BY);
    let recorded = |value: Option<bool>| is_older && value == Some(true);
    let holds =
        |result: Option<bool>, previous: Option<bool>| result.unwrap_or_else(|| recorded(previous));
    let started =
        request.running && (!request.startup_probe || holds(startup, request.previous_started));
    let ready =
        started && (!request.readiness_probe || holds(readiness, request.previous_pod_ready));
    Ok(DeriveStartedReadyResponse { started, ready })
}

/// Whether a probe has succeeded; `None` before its first result.
fn result(has_probe: bool, word: &str, field: &str) -> Result<Option<bool>, ModelError> {
    match ProbeValue::parse_or(word, ProbeValue::Unknown, field)? {
        ProbeValue::Success => Ok(Some(true)),
        ProbeValue::Failure if !has_probe => {
            Err(ModelError::new(field, "must not be `Failure` without a probe"))
        }
        ProbeValue::Failure => Ok(Some(false)),
        ProbeValue::Unknown => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derive(fields: &str) -> Result<(bool, bool), String> {
        let request = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
        let answer = derive_started_ready(&request).map_err(|error| error.to_string())?;
        Ok((answer.started, answer.ready))
    }

    const BOTH: &str = r#""running": true, "startupProbe": true, "readinessProbe": true"#;
    const RECORDED: &str = r#""previousPodReady": true, "previousStarted": true"#;

    /// L-PROBE-16: exactly 10 s are not more than 10 s, and a result goes before the record.
    #[test]
    fn after_an_agent_restart() {
        let older = |seconds: i64, rest: &str| {
            derive(&format!(
                r#"{BOTH}, {RECORDED}, "containerOlderThanAgentBySeconds": {seconds}{rest}"#
            ))
            .unwrap()
        };
        assert_eq!(older(11, ""), (true, true));
        assert_eq!(older(10, ""), (false, false));
        assert_eq!(older(i64::MIN, ""), (false, false));
        assert_eq!(older(60, r#", "readinessResult": "Failure""#), (true, false));
        assert_eq!(older(60, r#", "startupResult": "Failure""#), (false, false));
        assert_eq!(older(60, r#", "running": false"#), (false, false));
        assert_eq!(derive(&format!("{BOTH}, {RECORDED}")).unwrap(), (false, false));
    }

    /// L-PROBE-10, L-PROBE-14.
    #[test]
    fn results() {
        let both = |startup: &str, readiness: &str| {
            let results =
                format!(r#", "startupResult": "{startup}", "readinessResult": "{readiness}""#);
            derive(&format!("{BOTH}{results}")).unwrap()
        };
        assert_eq!(both("Success", "Success"), (true, true));
        assert_eq!(both("Unknown", "Success"), (false, false));
        assert_eq!(both("Success", "Unknown"), (true, false));
        let ended = r#""readinessProbe": true, "readinessResult": "Success""#;
        assert_eq!(derive(ended).unwrap(), (false, false));
    }

    #[test]
    fn bad_input_names_its_field() {
        assert_eq!(
            derive(r#""startupResult": "Failure""#).unwrap_err(),
            "`startupResult`: must not be `Failure` without a probe"
        );
        assert_eq!(
            derive(r#""readinessResult": "success""#).unwrap_err(),
            "`readinessResult`: unknown value `success`: not one of `Success`, `Failure`, `Unknown`"
        );
    }
}
