//! `ProbeTimeline`: a probe over time, with its runs, the value in force and the kill (L-PROBE-8 to L-PROBE-15).

use berth_proto::berth_v1::{ProbeTick, ProbeTimelineRequest, ProbeTimelineResponse};

use super::{ProbeType, ProbeValue, Settings};
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Outcome of a tick's attempts.
    enum Outcome {
        /// The probe succeeded.
        Success = "Success",
        /// The probe failed.
        Failure = "Failure",
        /// The probe could not run; this neither counts nor interrupts a run of equal results (L-PROBE-6).
        Error = "Error",
    }
}

/// A probe of one container instance.
#[derive(Debug)]
struct Worker {
    r#type: ProbeType,
    settings: Settings,
    /// Time at which the instance started.
    started_at: Seconds,
    value: ProbeValue,
    /// The latest result, and how often it occurred in a row.
    row: Option<(Outcome, i32)>,
    /// Whether the probe pauses until there is a new instance (L-PROBE-13).
    is_paused: bool,
    /// Whether the probe has ended for good (L-PROBE-15).
    is_stopped: bool,
}

/// The facts at a tick.
#[derive(Copy, Clone, Debug)]
struct Tick {
    at: Seconds,
    outcome: Outcome,
    /// Whether the container counts as started.
    is_started: bool,
    is_deleted: bool,
}

/// `ProbeTimeline`: runs a probe over ticks; the response message describes the result. Cost: one pass over the ticks.
///
/// # Errors
/// [`ModelError`] for an unknown word, a missing probe or time, a number that the probe must not have (L-PROBE-18), and
/// ticks out of order or before the container's start.
pub fn probe_timeline(request: &ProbeTimelineRequest) -> Result<ProbeTimelineResponse, ModelError> {
    let r#type = ProbeType::parse(&request.probe_type, "probeType")?;
    let probe = request.probe.as_ref().ok_or_else(|| ModelError::new("probe", "required"))?;
    let settings = Settings::of(probe).map_err(|error| error.under("probe"))?;
    if !r#type.may_need(settings.success_threshold) {
        let (threshold, word) = (settings.success_threshold, r#type.word());
        let reason = format!("is `{threshold}`, must be 1 for a {word} probe");
        return Err(ModelError::new("probe.successThreshold", reason));
    }
    let started_at =
        reading::required(request.container_started_at.as_ref(), "containerStartedAt")?;
    let first_started = match request.started_at_tick.map(usize::try_from) {
        None => usize::MAX,
        Some(Ok(index)) => index,
        Some(Err(_)) => return Err(ModelError::new("startedAtTick", "is negative")),
    };
    let deleted_at = reading::optional(request.deletion_requested_at.as_ref());

    let mut worker = Worker::new(r#type, settings, started_at);
    let mut answer = ProbeTimelineResponse::default();
    let mut latest = started_at;
    for (index, tick) in request.ticks.iter().enumerate() {
        let (at, outcome) = reading::in_list("ticks", index, read(tick, latest))?;
        latest = at;
        let has_come_up = r#type == ProbeType::Startup && worker.value == ProbeValue::Success;
        let ran = worker.tick(Tick {
            at,
            outcome,
            is_started: has_come_up || index >= first_started,
            is_deleted: deleted_at.is_some_and(|deleted| at >= deleted),
        });
        answer.ran.push(ran);
        answer.values.push(worker.value.word().to_owned());
        if ran && worker.is_paused {
            answer.kill_at = Some(reading::time(at));
        }
    }
    Ok(answer)
}

/// Reads the time and outcome of a tick, which must not be before `latest`.
fn read(tick: &ProbeTick, latest: Seconds) -> Result<(Seconds, Outcome), ModelError> {
    let at = reading::required(tick.at.as_ref(), "at")?;
    if at < latest {
        return Err(ModelError::new("at", "is before the previous tick or the container's start"));
    }
    Ok((at, Outcome::parse(&tick.outcome, "outcome")?))
}

impl Worker {
    fn new(r#type: ProbeType, settings: Settings, started_at: Seconds) -> Worker {
        let (row, is_paused, is_stopped) = (None, false, false);
        Worker { r#type, settings, started_at, value: r#type.initial(), row, is_paused, is_stopped }
    }

    /// Handles a tick; returns whether the probe ran. The checks have the node agent's order: a probe that has killed
    /// keeps its value even if deletion is requested.
    fn tick(&mut self, tick: Tick) -> bool {
        if self.is_paused || self.is_stopped {
            return false;
        }
        // Readiness continues until the containers have stopped (L-PROBE-15).
        if tick.is_deleted && self.r#type.kills() {
            self.value = ProbeValue::Success;
            self.is_stopped = true;
            return false;
        }
        // L-PROBE-8.
        if tick.at.saturating_sub(self.started_at) < self.settings.initial_delay {
            return false;
        }
        // A startup probe runs until the container is started, the others from then on (L-PROBE-10, L-PROBE-13).
        if tick.is_started == (self.r#type == ProbeType::Startup) {
            return false;
        }
        self.count(tick.outcome);
        true
    }

    /// Counts a result, and puts it in force once it has occurred often enough in a row (L-PROBE-9).
    fn count(&mut self, outcome: Outcome) {
        let (threshold, value) = match outcome {
            Outcome::Success => (self.settings.success_threshold, ProbeValue::Success),
            Outcome::Failure => (self.settings.failure_threshold, ProbeValue::Failure),
            Outcome::Error => return,
        };
        let n_in_row = match self.row {
            Some((last, n)) if last == outcome => n.saturating_add(1),
            _ => 1,
        };
        self.row = Some((outcome, n_in_row));
        if n_in_row < threshold {
            return;
        }
        self.value = value;
        // The container is killed, once: its next instance has a probe of its own (L-PROBE-12, L-PROBE-13).
        self.is_paused = value == ProbeValue::Failure && self.r#type.kills();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks are written as in `S 0, F 10, E 20`: outcome and seconds after the container's start.
    fn check(fields: &str, ticks: &str, expected: &str, kill_at: Option<i64>) {
        let ticks = ticks.split(", ").map(|tick| {
            let (outcome, at) = tick.split_once(' ').unwrap();
            let outcome = Outcome::WORDS.iter().find(|word| word.starts_with(outcome)).unwrap();
            let at = Some(berth_proto::Time::from_unix_seconds(at.parse().unwrap()));
            ProbeTick { at, outcome: (*outcome).to_owned() }
        });
        let mut request: ProbeTimelineRequest = serde_json::from_str(&format!(
            r#"{{"containerStartedAt": "1970-01-01T00:00:00Z", {fields}}}"#
        ))
        .unwrap();
        request.ticks = ticks.collect();
        let answer = probe_timeline(&request).unwrap();
        let values = answer.values.iter().zip(&answer.ran);
        let values = values.map(|(value, ran)| {
            let letter = value[..1].to_owned();
            if *ran { letter } else { letter.to_lowercase() }
        });
        assert_eq!(values.collect::<String>(), expected, "{fields}");
        assert_eq!(answer.kill_at.map(|at| at.unix_seconds().unwrap()), kill_at, "{fields}");
    }

    /// L-PROBE-13 before L-PROBE-15: a probe that has killed keeps its value.
    #[test]
    fn deletion() {
        let deleted = r#""startedAtTick": 0, "deletionRequestedAt": "1970-01-01T00:00:10Z""#;
        let once = r#""probe": {"failureThreshold": 1}"#;
        let liveness = format!(r#""probeType": "liveness", {once}, {deleted}"#);
        check(&liveness, "F 0, F 10", "Ff", Some(0));
        check(&liveness, "S 0, F 10, F 20", "Sss", None);
        let startup = format!(
            r#""probeType": "startup", {once}, "deletionRequestedAt": "1970-01-01T00:00:10Z""#
        );
        check(&startup, "E 0, F 10, F 20", "Uss", None);
        let readiness = format!(r#""probeType": "readiness", {once}, {deleted}"#);
        check(&readiness, "S 0, F 10", "SF", None);
    }

    /// L-PROBE-6, L-PROBE-17: an attempt that could not run neither counts nor interrupts a run of equal results.
    /// L-PROBE-11: the values before any result.
    #[test]
    fn errors_count_for_nothing() {
        let probe = |probe_type: &str, started: &str| {
            format!(r#""probeType": "{probe_type}", "probe": {{"failureThreshold": 2}}{started}"#)
        };
        let started = r#", "startedAtTick": 0"#;
        check(&probe("liveness", started), "E 0, F 1, E 2, E 3, F 4", "SSSSF", Some(4));
        check(&probe("readiness", started), "E 0, S 1, F 2, E 3, F 4", "FSSSF", None);
        check(&probe("startup", ""), "E 0, F 1, E 2, S 3", "UUUS", None);
    }

    /// L-PROBE-10: a container may count as started without its probe.
    #[test]
    fn a_startup_probe_ends_when_the_container_is_started() {
        check(
            r#""probeType": "startup", "probe": {}, "startedAtTick": 1"#,
            "F 0, F 1, F 2",
            "Uuu",
            None,
        );
    }

    /// L-PROBE-7, L-PROBE-8: zeroes mean defaults, and the last second of the delay counts.
    #[test]
    fn defaults_and_delay() {
        let probe =
            r#""probeType": "liveness", "probe": {"initialDelaySeconds": 2}, "startedAtTick": 0"#;
        check(probe, "F 1, F 2, F 3, F 4, F 5", "sSSFf", Some(4));
    }

    #[test]
    fn bad_input_names_its_field() {
        let start = r#""containerStartedAt": "1970-01-01T00:00:10Z""#;
        let ticks = |ticks: &str| {
            format!(r#"{{"probeType": "startup", "probe": {{}}, {start}, "ticks": [{ticks}]}}"#)
        };
        for (request, expected) in [
            ("{}".to_owned(), "`probeType`: required: one of `liveness`, `readiness`, `startup`"),
            (r#"{"probeType": "startup"}"#.to_owned(), "`probe`: required"),
            (
                r#"{"probeType": "startup", "probe": {}}"#.to_owned(),
                "`containerStartedAt`: required",
            ),
            (
                r#"{"probeType": "startup", "probe": {"failureThreshold": -3}}"#.to_owned(),
                "`probe.failureThreshold`: `-3` is negative",
            ),
            (
                r#"{"probeType": "liveness", "probe": {"successThreshold": 3}}"#.to_owned(),
                "`probe.successThreshold`: is `3`, must be 1 for a liveness probe",
            ),
            (
                format!(
                    r#"{{"probeType": "startup", "probe": {{}}, "startedAtTick": -1, {start}}}"#
                ),
                "`startedAtTick`: is negative",
            ),
            (ticks("{}"), "`ticks[0].at`: required"),
            (
                ticks(r#"{"at": "1970-01-01T00:00:10Z", "outcome": "Timeout"}"#),
                "`ticks[0].outcome`: unknown value `Timeout`: not one of `Success`, `Failure`, `Error`",
            ),
            (
                ticks(r#"{"at": "1970-01-01T00:00:09Z", "outcome": "Error"}"#),
                "`ticks[0].at`: is before the previous tick or the container's start",
            ),
            (
                ticks(
                    r#"{"at": "1970-01-01T00:00:12Z", "outcome": "Error"}, {"at": "1970-01-01T00:00:11Z", "outcome": "Error"}"#,
                ),
                "`ticks[1].at`: is before the previous tick or the container's start",
            ),
        ] {
            let request: ProbeTimelineRequest = serde_json::from_str(&request).unwrap();
            assert_eq!(probe_timeline(&request).unwrap_err().to_string(), expected);
        }
    }
}
