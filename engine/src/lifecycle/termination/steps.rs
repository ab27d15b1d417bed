//! `TerminationPlan`: every step of a pod's termination, with its time (L-TERM-9 to L-TERM-15, L-TERM-18, L-TERM-19).

use std::collections::BTreeSet;

use berth_proto::berth_v1::{
    StoppingContainer, TerminationEvent, TerminationPlanRequest, TerminationPlanResponse,
};

use super::grace::node_grace;
use super::plan::{Period, Stop, Stopping, plan};
use crate::lifecycle::reading::{in_list, required, time};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Action of a step.
    enum StepAction {
        /// A preStop hook is started.
        PreStop = "PreStop",
        /// A preStop hook has ended.
        PreStopDone = "PreStopDone",
        /// The grace period is over while a preStop hook still runs; the termination stops waiting for it.
        PreStopAbandoned = "PreStopAbandoned",
        /// The stop signal is sent.
        Signal = "Signal",
        /// SIGKILL is sent.
        Kill = "Kill",
        /// The process is gone.
        Exited = "Exited",
        /// The pod's terminal phase is set and published, before the object is removed (L-TERM-18).
        PodTerminalPhase = "PodTerminalPhase",
        /// The node agent requests the removal of the object, once (L-TERM-19).
        RemovePod = "RemovePod",
    }
}

impl StepAction {
    /// Order among the steps of one time; the two ways in which a hook ends are equal.
    const fn rank(self) -> u8 {
        match self {
            StepAction::PreStop => 0,
            StepAction::PreStopDone | StepAction::PreStopAbandoned => 1,
            StepAction::Signal => 2,
            StepAction::Kill => 3,
            StepAction::Exited => 4,
            StepAction::PodTerminalPhase => 5,
            StepAction::RemovePod => 6,
        }
    }
}

/// A step of one container, or of the pod if `container` is empty.
#[derive(Copy, Clone)]
struct Step<'a> {
    at: i64,
    action: StepAction,
    container: &'a str,
    signal: &'a str,
}

/// `TerminationPlan`: the steps of a pod's termination, in order of time.
///
/// The plan ends with the removal, which has period 0 and the pod's UID as precondition. `AuthorizeRemoval` decides
/// whether it is due: the pod is marked, its published phase terminal, its processes dead, its volumes unmounted and
/// the node's resources freed (L-TERM-19).
///
/// # Errors
/// [`ModelError`] for a missing period or start, and for containers with a missing or duplicate name, an unknown kind
/// or negative durations.
pub fn termination_plan(
    request: &TerminationPlanRequest,
) -> Result<TerminationPlanResponse, ModelError> {
    let period = period(request.grace_seconds, request.termination_started_at.as_ref())?;
    let containers = stopping(&request.containers)?;
    let stops = plan(period, &containers);
    let mut steps: Vec<Step<'_>> = containers
        .iter()
        .zip(&stops)
        .flat_map(|(container, stop)| steps_of(period, container, stop))
        .flatten()
        .collect();
    steps.sort_unstable_by_key(|step| (step.at, step.action.rank(), step.container));
    let at = stops.iter().map(|stop| stop.exited_at).max().unwrap_or(period.started_at);
    for action in [StepAction::PodTerminalPhase, StepAction::RemovePod] {
        steps.push(Step { at, action, container: "", signal: "" });
    }
    Ok(TerminationPlanResponse { events: steps.into_iter().map(event).collect() })
}

/// The steps of one container, in any order.
fn steps_of<'a>(period: Period, container: &Stopping<'a>, stop: &Stop) -> [Option<Step<'a>>; 5] {
    let step = |at, action, signal| Step { at, action, container: container.name, signal };
    let hook_ended = |abandoned| match abandoned {
        true => StepAction::PreStopAbandoned,
        false => StepAction::PreStopDone,
    };
    [
        stop.pre_stop.map(|_| step(period.started_at, StepAction::PreStop, "")),
        stop.pre_stop.map(|hook| step(hook.ended_at, hook_ended(hook.abandoned), "")),
        // The image's stop signal goes before the default (L-TERM-11).
        Some(step(stop.signal_at, StepAction::Signal, container.stop_signal.unwrap_or("SIGTERM"))),
        stop.killed.then(|| step(stop.kill_at, StepAction::Kill, "SIGKILL")),
        Some(step(stop.exited_at, StepAction::Exited, "")),
    ]
}

fn event(step: Step<'_>) -> TerminationEvent {
    TerminationEvent {
        at: Some(time(step.at)),
        action: step.action.word().into(),
        container: step.container.into(),
        signal: step.signal.into(),
        grace_period_seconds: (step.action == StepAction::RemovePod).then_some(0),
    }
}

/// Reads the grace period from its two required fields; on a node it is at least 1 s (L-TERM-8).
pub(super) fn period(
    grace_seconds: Option<i64>,
    started_at: Option<&berth_proto::Time>,
) -> Result<Period, ModelError> {
    let grace = grace_seconds.ok_or_else(|| ModelError::new("graceSeconds", "required"))?;
    let started_at = required(started_at, "terminationStartedAt")?;
    let ends_at = started_at.saturating_add(on_node(grace));
    Ok(Period { started_at, ends_at, shortened_at: None })
}

/// The period that applies on the node for a period of the API, in seconds.
pub(super) fn on_node(grace_seconds: i64) -> i64 {
    node_grace(0, Some(grace_seconds), None, None).seconds
}

/// Reads the containers of a request.
pub(super) fn stopping(containers: &[StoppingContainer]) -> Result<Vec<Stopping<'_>>, ModelError> {
    let mut names = BTreeSet::new();
    let one = |(index, container)| {
        in_list("containers", index, stopping_container(container, &mut names))
    };
    containers.iter().enumerate().map(one).collect()
}

fn stopping_container<'a>(
    container: &'a StoppingContainer,
    names: &mut BTreeSet<&'a str>,
) -> Result<Stopping<'a>, ModelError> {
    if container.name.is_empty() {
        return Err(ModelError::new("name", "required"));
    }
    if !names.insert(&container.name) {
        let reason = format!("duplicate `{}`", clip(&container.name));
        return Err(ModelError::new("name", reason));
    }
    Ok(Stopping {
        name: &container.name,
        kind: ContainerKind::parse(&container.kind, "kind")?,
        exit_after_signal: duration(container.exit_after_signal_seconds, "exitAfterSignalSeconds")?,
        pre_stop: duration(container.pre_stop_seconds, "preStopSeconds")?,
        stop_signal: Some(container.stop_signal.as_str()).filter(|signal| !signal.is_empty()),
        ends_at: None,
        kill_by: None,
    })
}

fn duration(seconds: Option<i64>, field: &str) -> Result<Option<i64>, ModelError> {
    match seconds {
        Some(seconds) if seconds < 0 => {
            Err(ModelError::new(field, format!("is {seconds}, below 0")))
        }
        _ => Ok(seconds),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(request: &serde_json::Value) -> Result<Vec<String>, String> {
        let mut whole = json!({"terminationStartedAt": "1970-01-01T00:00:00Z"});
        whole.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        let request: TerminationPlanRequest = serde_json::from_value(whole).unwrap();
        let response = termination_plan(&request).map_err(|error| error.to_string())?;
        let text = |event: &TerminationEvent| {
            let seconds = event.at.as_ref().unwrap().unix_seconds().unwrap();
            format!("{seconds} {} {}", event.action, event.container).trim_end().to_owned()
        };
        Ok(response.events.iter().map(text).collect())
    }

    #[test]
    fn a_pod_without_processes_is_removed_at_once() {
        let steps = answer(&json!({"graceSeconds": 30})).unwrap();
        assert_eq!(steps, ["0 PodTerminalPhase", "0 RemovePod"]);
    }

    #[test]
    fn steps_of_one_moment_go_by_action_then_name() {
        let steps = answer(&json!({"graceSeconds": 5, "containers": [
            {"name": "b", "kind": "regular", "preStopSeconds": 5, "exitAfterSignalSeconds": 0},
            {"name": "a", "kind": "regular", "preStopSeconds": 6, "exitAfterSignalSeconds": 0},
        ]}));
        // The two ways in which a hook ends have equal rank.
        let expected = [
            "0 PreStop a",
            "0 PreStop b",
            "5 PreStopAbandoned a",
            "5 PreStopDone b",
            "5 Signal a",
            "5 Signal b",
            "5 Exited a",
            "5 Exited b",
            "5 PodTerminalPhase",
            "5 RemovePod",
        ];
        assert_eq!(steps.unwrap(), expected);
    }

    #[test]
    fn bad_input_is_named() {
        let error = |request: &serde_json::Value| answer(request).unwrap_err();
        let with = |container: serde_json::Value| {
            error(&json!({"graceSeconds": 30, "containers": [container]}))
        };
        assert_eq!(error(&json!({})), "`graceSeconds`: required");
        let start = json!({"graceSeconds": 1, "terminationStartedAt": null});
        assert_eq!(error(&start), "`terminationStartedAt`: required");
        assert_eq!(with(json!({"kind": "regular"})), "`containers[0].name`: required");
        assert_eq!(
            with(json!({"name": "a", "kind": "main"})),
            "`containers[0].kind`: unknown value `main`: not one of `regular`, `init`, `sidecar`, `ephemeral`"
        );
        assert_eq!(
            with(json!({"name": "a", "kind": "regular", "preStopSeconds": -1})),
            "`containers[0].preStopSeconds`: is -1, below 0"
        );
        let twice = json!({"name": "a", "kind": "regular"});
        let request = json!({"graceSeconds": 30, "containers": [twice, twice]});
        assert_eq!(error(&request), "`containers[1].name`: duplicate `a`");
    }
}
