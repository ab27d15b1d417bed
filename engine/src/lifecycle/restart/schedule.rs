//! `BackoffSchedule` and `SameBackoffHistory`: the restarts of a container that keeps ending, and the key of its
//! history.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    BackoffScheduleRequest, BackoffScheduleResponse, BackoffSubject, ContainerRun,
    SameBackoffHistoryRequest, SameBackoffHistoryResponse, ScheduledRestart,
};
use berth_proto::core_v1::{Container, ResourceRequirements};
use berth_proto::{Amount, Quantity};

use super::back_off::{BackOffHistory, BackOffLimits};
use crate::lifecycle::reading::{self, Seconds};
use crate::model::ModelError;

/// `BackoffSchedule`: the earliest time of each restart, from the runs of one container (L-RESTART-15, L-RESTART-16,
/// L-RESTART-18, L-RESTART-19). Exit codes play no role. Cost: one pass over the runs.
///
/// # Errors
/// [`ModelError`] for limits out of range, and for runs without a time or out of order.
pub fn backoff_schedule(
    request: &BackoffScheduleRequest,
) -> Result<BackoffScheduleResponse, ModelError> {
    let limits = BackOffLimits::new(request.base_seconds, request.max_seconds)?;
    let mut history = BackOffHistory::default();
    // Delay before the restart that is due now, and the finish of the run before it.
    let mut due: Option<(Seconds, Seconds)> = None;
    let mut restarts = Vec::with_capacity(request.exits.len());
    for (index, run) in request.exits.iter().enumerate() {
        let after = due.map(|(_, finished)| finished);
        let (started, finished) = reading::in_list("exits", index, times(run, after))?;
        if let Some((delay, _)) = due {
            history = BackOffHistory::restarted(delay, started);
        }
        let hold = limits.hold(history, finished);
        due = Some((hold.delay, finished));
        restarts.push(ScheduledRestart {
            not_before: Some(reading::time(hold.not_before)),
            backoff_seconds: hold.delay,
            reason: hold.reason().unwrap_or_default().to_owned(),
        });
    }
    Ok(BackoffScheduleResponse { restarts })
}

/// Reads start and finish of a run; the previous one finished at `after`.
fn times(run: &ContainerRun, after: Option<Seconds>) -> Result<(Seconds, Seconds), ModelError> {
    let started = reading::required(run.started_at.as_ref(), "startedAt")?;
    let finished = reading::required(run.finished_at.as_ref(), "finishedAt")?;
    if after.is_some_and(|after| started < after) {
        return Err(ModelError::new("startedAt", "is before the finish of the previous run"));
    }
    if finished < started {
        return Err(ModelError::new("finishedAt", "is before `startedAt`"));
    }
    Ok((started, finished))
}

/// `SameBackoffHistory`: whether two containers share one back-off history, which needs equal pod name, namespace and
/// UID, container name, image and resources (L-RESTART-17). Quantities are compared by value.
///
/// # Errors
/// [`ModelError`] for a missing side or container, and for a quantity that does not parse.
pub fn same_backoff_history(
    request: &SameBackoffHistoryRequest,
) -> Result<SameBackoffHistoryResponse, ModelError> {
    let a = Key::of(request.a.as_ref()).map_err(|error| error.under("a"))?;
    let b = Key::of(request.b.as_ref()).map_err(|error| error.under("b"))?;
    Ok(SameBackoffHistoryResponse { same: a == b })
}

/// Key of a back-off history.
#[derive(PartialEq)]
struct Key<'a> {
    /// Name, namespace and UID of the pod.
    pod: [&'a str; 3],
    /// Name and image of the container.
    container: [&'a str; 2],
    limits: BTreeMap<&'a str, Amount>,
    requests: BTreeMap<&'a str, Amount>,
    /// Names and requests of resource claims, sorted.
    claims: Vec<(&'a str, &'a str)>,
}

impl<'a> Key<'a> {
    fn of(subject: Option<&'a BackoffSubject>) -> Result<Key<'a>, ModelError> {
        let required = |field: &str| ModelError::new(field, "required");
        let subject = subject.ok_or_else(|| required(""))?;
        let container = subject.container.as_ref().ok_or_else(|| required("container"))?;
        let Container { name, image, .. } = container;
        if name.is_empty() {
            return Err(required("container.name"));
        }
        let mut key = Key {
            pod: [&subject.pod_name, &subject.pod_namespace, &subject.pod_uid],
            container: [name, image],
            limits: BTreeMap::new(),
            requests: BTreeMap::new(),
            claims: Vec::new(),
        };
        if let Some(resources) = &container.resources {
            key.add(resources).map_err(|error| error.under("container.resources"))?;
        }
        Ok(key)
    }

    fn add(&mut self, resources: &'a ResourceRequirements) -> Result<(), ModelError> {
        self.limits = amounts("limits", &resources.limits)?;
        self.requests = amounts("requests", &resources.requests)?;
        let claims = resources.claims.iter();
        self.claims = claims.map(|claim| (&*claim.name, &*claim.request)).collect();
        self.claims.sort_unstable();
        Ok(())
    }
}

fn amounts<'a>(
    field: &str,
    quantities: &'a BTreeMap<String, Quantity>,
) -> Result<BTreeMap<&'a str, Amount>, ModelError> {
    let parse = |(name, quantity): (&'a String, &Quantity)| match quantity.parse() {
        Ok(amount) => Ok((name.as_str(), amount)),
        Err(error) => Err(ModelError::new(format!("{field}[{name}]"), error.to_string())),
    };
    quantities.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(json: &str) -> Result<Vec<(i64, i64)>, String> {
        let request: BackoffScheduleRequest = serde_json::from_str(json).unwrap();
        let answer = backoff_schedule(&request).map_err(|error| error.to_string())?;
        let at = |time: &Option<berth_proto::Time>| time.unwrap().unix_seconds().unwrap();
        Ok(answer.restarts.iter().map(|r| (at(&r.not_before), r.backoff_seconds)).collect())
    }

    /// L-RESTART-15, L-RESTART-18: without limits the defaults apply, and a cap below the base replaces the base.
    #[test]
    fn defaults() {
        let exits = r#""exits": [
            {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:01Z"},
            {"startedAt": "1970-01-01T00:00:01Z", "finishedAt": "1970-01-01T00:00:02Z"},
            {"startedAt": "1970-01-01T00:00:12Z", "finishedAt": "1970-01-01T00:00:13Z"}]"#;
        assert_eq!(schedule(&format!("{{{exits}}}")).unwrap(), [(1, 0), (12, 10), (33, 20)]);
        let capped = schedule(&format!(r#"{{"maxSeconds": 4, {exits}}}"#));
        assert_eq!(capped.unwrap(), [(1, 0), (6, 4), (17, 4)]);
        assert_eq!(schedule("{}").unwrap(), []);
    }

    #[test]
    fn bad_input_names_its_field() {
        for (json, expected) in [
            (r#"{"maxSeconds": 301}"#, "`maxSeconds`: `301` is outside 1 to 300 seconds"),
            (r#"{"maxSeconds": 0}"#, "`maxSeconds`: `0` is outside 1 to 300 seconds"),
            (r#"{"baseSeconds": 0}"#, "`baseSeconds`: `0` is below 1 second"),
            (r#"{"exits": [{}]}"#, "`exits[0].startedAt`: required"),
            (
                r#"{"exits": [{"startedAt": "2026-01-10T12:00:00Z"}]}"#,
                "`exits[0].finishedAt`: required",
            ),
            (
                r#"{"exits": [{"startedAt": "2026-01-10T12:00:01Z", "finishedAt": "2026-01-10T12:00:00Z"}]}"#,
                "`exits[0].finishedAt`: is before `startedAt`",
            ),
            (
                r#"{"exits": [{"startedAt": "2026-01-10T12:00:00Z", "finishedAt": "2026-01-10T12:00:09Z"},
                    {"startedAt": "2026-01-10T12:00:08Z", "finishedAt": "2026-01-10T12:00:10Z"}]}"#,
                "`exits[1].startedAt`: is before the finish of the previous run",
            ),
        ] {
            assert_eq!(schedule(json).unwrap_err(), expected, "{json}");
        }
    }

    /// L-RESTART-17: quantities count by value, not by spelling, and claims in any order.
    #[test]
    fn quantities_are_compared_by_value() {
        let side = |resources: &str| {
            format!(
                r#"{{"podName": "p", "podUID": "u", "container": {{"name": "c", "resources": {resources}}}}}"#
            )
        };
        let same = |a: &str, b: &str| {
            let json = format!(r#"{{"a": {}, "b": {}}}"#, side(a), side(b));
            same_backoff_history(&serde_json::from_str(&json).unwrap()).map(|answer| answer.same)
        };
        let cpu = |text: &str| format!(r#"{{"requests": {{"cpu": "{text}"}}}}"#);
        assert_eq!(same(&cpu("1"), &cpu("1000m")), Ok(true));
        assert_eq!(same(&cpu("1"), &cpu("1001m")), Ok(false));
        assert_eq!(same("{}", "null"), Ok(true));
        assert_eq!(
            same(
                r#"{"claims": [{"name": "a"}, {"name": "b"}]}"#,
                r#"{"claims": [{"name": "b"}, {"name": "a"}]}"#
            ),
            Ok(true)
        );
        let error = same("{}", &cpu("x")).unwrap_err();
        assert_eq!(error.field, "b.container.resources.requests[cpu]");
        let error = same_backoff_history(&SameBackoffHistoryRequest::default()).unwrap_err();
        assert_eq!(error.to_string(), "`a`: required");
    }
}
