//! `AllContainersRestarting`: that all containers of a pod are being restarted in place (L-COND-18).

use berth_proto::berth_v1::{
    AllContainersRestartingRequest, AllContainersRestartingResponse, ObservedContainer,
};
use berth_proto::core_v1::{Container, EphemeralContainerCommon, Pod, PodCondition, PodSpec};

use super::has_restart_all_rule;
use super::recorded::Recorded;
use super::set::{Finding, OwnedType, since};
use super::text::{self, Text};
use crate::lifecycle::container_state::ByName;
use crate::lifecycle::reading;
use crate::lifecycle::restart::{RestartAction, restart_due};
use crate::lifecycle::vocabulary::{ConditionStatus, ContainerKind, PodPhase, RuntimeState};
use crate::model::ModelError;

/// `AllContainersRestarting`: the pod's conditions with this one, which only pods with a rule to restart all containers have.
/// It holds from an exit that triggers the rule until the runtime has none of the old containers any more (L-COND-18). It is not
/// tied to a generation of the pod (L-COND-1).
///
/// # Errors
/// [`ModelError`] for a missing `pod`, an unknown word, a container that the pod does not have or that is there twice, an exit
/// without a code, or recorded conditions that contradict each other.
pub fn all_containers_restarting(
    request: &AllContainersRestartingRequest,
) -> Result<AllContainersRestartingResponse, ModelError> {
    let pod = request.pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let phase = PodPhase::parse(&request.phase, "phase")?;
    let now = reading::optional(request.now.as_ref());
    let recorded = Recorded::read(pod).map_err(|error| error.under("pod"))?;
    let runtime = InRuntime::read(pod, &request.containers)?;
    let r#type = OwnedType::AllContainersRestarting;
    let mut conditions = recorded.to_wire();
    if !has_restart_all_rule(reading::spec(pod)) {
        conditions.remove(r#type.word());
        return Ok(AllContainersRestartingResponse { conditions });
    }
    let is_asked_for = runtime.is_triggered || recorded.is_true(r#type);
    let finding = match Finding::over(phase) {
        Some(over) => over,
        None if is_asked_for && runtime.has_any => Finding {
            status: ConditionStatus::True,
            reason: "RestartAllContainersStarted",
            text: Text::Fixed("a container exited with a code for which all are restarted"),
        },
        None => Finding::plain(false),
    };
    let since = since(recorded.owned(r#type), finding.status, now);
    let condition = PodCondition {
        r#type: r#type.word().to_owned(),
        status: finding.status.word().to_owned(),
        last_transition_time: since.map(reading::time),
        reason: finding.reason.to_owned(),
        message: text::write(finding.text, pod),
        ..PodCondition::default()
    };
    conditions.insert(r#type.word().to_owned(), condition);
    Ok(AllContainersRestartingResponse { conditions })
}

/// What the runtime has of a pod.
struct InRuntime {
    /// A container exited with a code for which all are restarted.
    is_triggered: bool,
    /// An init or app container is still there.
    has_any: bool,
}

impl InRuntime {
    /// # Errors
    /// [`ModelError`] relative to the request.
    fn read(pod: &Pod, observed: &[ObservedContainer]) -> Result<InRuntime, ModelError> {
        let spec = reading::spec(pod);
        let policy = reading::restart_policy(spec).map_err(|error| error.under("pod.spec"))?;
        let init = containers(INIT, &spec.init_containers)?;
        let app = containers(APP, &spec.containers)?;
        twice("containers", ByName::new(observed))?;
        let mut runtime = InRuntime { is_triggered: false, has_any: false };
        for (at, seen) in observed.iter().enumerate() {
            let state = reading::in_list("containers", at, read_state(seen))?;
            let found = match (init.position(&seen.name), app.position_near(at, &seen.name)) {
                (Some(place), _) => Some((INIT, place, &spec.init_containers[place])),
                (None, Some(place)) => Some((APP, place, &spec.containers[place])),
                (None, None) => None,
            };
            let Some((list, place, container)) = found else {
                check_ephemeral(spec, at, &seen.name)?;
                continue;
            };
            runtime.has_any = true;
            if let (RuntimeState::Exited, Some(code)) = (state, seen.exit_code) {
                // Rules are read alike for all kinds of containers; only what follows when none matches differs.
                let kind = ContainerKind::Regular;
                let due = restart_due(policy, container, kind, code, &seen.reason, false);
                let action = reading::in_list(list, place, due)?;
                runtime.is_triggered |= action == RestartAction::RestartAllContainers;
            }
        }
        Ok(runtime)
    }
}

const INIT: &str = "pod.spec.initContainers";
const APP: &str = "pod.spec.containers";

/// The containers of a list of the spec by their names.
fn containers<'a>(
    list: &str,
    containers: &'a [Container],
) -> Result<ByName<'a, Container>, ModelError> {
    twice(list, ByName::new(containers))
}

fn twice<T>(list: &str, by_name: Result<T, usize>) -> Result<T, ModelError> {
    by_name.map_err(|at| ModelError::new(format!("{list}[{at}].name"), "is there twice"))
}

/// The state of a container in the runtime, and its exit code where there has to be one.
fn read_state(seen: &ObservedContainer) -> Result<RuntimeState, ModelError> {
    let state = RuntimeState::parse(&seen.state, "state")?;
    if state == RuntimeState::Exited && seen.exit_code.is_none() {
        return Err(ModelError::new("exitCode", "required of state `Exited`"));
    }
    Ok(state)
}

/// Ephemeral containers are none of those that restart; any other name is unknown.
fn check_ephemeral(spec: &PodSpec, at: usize, name: &str) -> Result<(), ModelError> {
    let mut ephemeral = spec.ephemeral_containers.iter();
    let is_name = |common: &EphemeralContainerCommon| common.name == name;
    if ephemeral.any(|added| added.ephemeral_container_common.as_ref().is_some_and(is_name)) {
        return Ok(());
    }
    let reason = format!("`{name}` is not a container of the pod");
    Err(ModelError::new(format!("containers[{at}].name"), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"generation":3},"spec":{"restartPolicy":"Never","containers":[
        {"name":"a","restartPolicy":"Never","restartPolicyRules":[
            {"action":"Restart","exitCodes":{"operator":"In","values":[1]}},
            {"action":"RestartAllContainers","exitCodes":{"operator":"NotIn","values":[0]}}]},
        {"name":"b"}],"ephemeralContainers":[{"name":"debug"}]},"status":{"conditions":[CONDITIONS]}}"#;

    fn check(phase: &str, containers: &str, recorded: &str) -> String {
        let pod = POD.replace("CONDITIONS", recorded);
        let request: AllContainersRestartingRequest = serde_json::from_str(&format!(
            r#"{{"pod":{pod},"phase":"{phase}","containers":[{containers}],"now":"2026-01-10T12:00:00Z"}}"#
        ))
        .unwrap();
        match all_containers_restarting(&request) {
            Ok(answer) => {
                let condition = &answer.conditions["AllContainersRestarting"];
                let since = reading::optional(condition.last_transition_time.as_ref());
                let hours = since.map(|since| (since - 1_768_046_400) / 3600);
                assert_eq!(condition.observed_generation, 0);
                format!("{} `{}` {hours:?}", condition.status, condition.reason)
            }
            Err(error) => error.to_string(),
        }
    }

    /// L-COND-18, L-COND-2, L-COND-1
    #[test]
    fn from_the_exit_until_all_are_gone() {
        let recorded = r#"{"type":"AllContainersRestarting","status":"True","lastTransitionTime":"2026-01-10T11:00:00Z"}"#;
        let exited = |code: i32| format!(r#"{{"name":"a","state":"Exited","exitCode":{code}}}"#);
        let started = "RestartAllContainersStarted";
        assert_eq!(check("Running", &exited(1), ""), "False `` Some(0)");
        assert_eq!(check("Running", &exited(0), ""), "False `` Some(0)");
        assert_eq!(check("Running", &exited(2), ""), format!("True `{started}` Some(0)"));
        assert_eq!(check("Running", &exited(0), recorded), format!("True `{started}` Some(-1)"));
        assert_eq!(
            check("Running", r#"{"name":"debug","state":"Running"}"#, recorded),
            "False `` Some(0)"
        );
        assert_eq!(check("Failed", &exited(2), recorded), "False `PodFailed` Some(0)");
        assert_eq!(check("Succeeded", &exited(2), ""), "False `PodCompleted` Some(0)");
    }

    /// L-COND-18
    #[test]
    fn bad_input_is_named() {
        let cases = [
            (
                r#"{"name":"z","state":"Running"}"#,
                "`containers[0].name`: `z` is not a container of the pod",
            ),
            (
                r#"{"name":"a","state":"Exited"}"#,
                "`containers[0].exitCode`: required of state `Exited`",
            ),
            (
                r#"{"name":"b","state":"Running"},{"name":"b","state":"Running"}"#,
                "`containers[1].name`: is there twice",
            ),
            (
                r#"{"name":"b"}"#,
                "`containers[0].state`: required: one of `Created`, `Running`, `Exited`, `Unknown`",
            ),
        ];
        for (containers, expected) in cases {
            assert_eq!(check("Running", containers, ""), expected);
        }
    }
}
