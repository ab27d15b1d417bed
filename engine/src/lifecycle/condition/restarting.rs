//! `AllContainersRestarting`: the condition of a pod whose containers are all being restarted in place (L-COND-18).

use berth_proto::berth_v1::{
    AllContainersRestartingRequest, AllContainersRestartingResponse, ObservedContainer,
};
use berth_proto::core_v1::{Pod, PodCondition};

use super::has_restart_all_rule;
use super::recorded::Recorded;
use super::text::{self};
use crate::lifecycle::condition::finding::{Finding, Text};
use crate::lifecycle::condition::owned::OwnedType;
use crate::lifecycle::condition::stated::since;
use crate::lifecycle::container_state::{ByName, Names};
use crate::lifecycle::reading;
use crate::lifecycle::restart::{Exit, exit_code, restarts_all};
use crate::lifecycle::vocabulary::{ConditionStatus, PodPhase, RuntimeState};
use crate::model::ModelError;

/// `AllContainersRestarting`: the pod's conditions with this one, which only pods with a rule to restart all containers
/// have. The condition holds from an exit that triggers the rule until the runtime has none of the old containers left
/// (L-COND-18). It has no observed generation (L-COND-1).
///
/// # Errors
/// [`ModelError`] for a missing `pod`, an unknown word, an unknown or duplicate container, an exit without a code, or
/// recorded conditions that contradict each other.
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

/// The containers of a pod that the runtime has.
struct InRuntime {
    /// Whether a container exited with a code for which all are restarted.
    is_triggered: bool,
    /// Whether the runtime still has an init or app container.
    has_any: bool,
}

impl InRuntime {
    /// # Errors
    /// [`ModelError`] relative to the request.
    fn read(pod: &Pod, observed: &[ObservedContainer]) -> Result<InRuntime, ModelError> {
        let spec = reading::spec(pod);
        let names = Names::of(spec).map_err(|error| error.under("pod"))?;
        ByName::new(observed)
            .map_err(|at| ModelError::new(format!("containers[{at}].name"), "duplicate name"))?;
        let mut runtime = InRuntime { is_triggered: false, has_any: false };
        for (at, seen) in observed.iter().enumerate() {
            let state = reading::in_list("containers", at, read_state(seen))?;
            let name = &seen.name;
            let (list, place, container) = if let Some(place) = names.app.position_near(at, name) {
                ("pod.spec.containers", place, &spec.containers[place])
            } else if let Some(place) = names.init.position(name) {
                ("pod.spec.initContainers", place, &spec.init_containers[place])
            } else if names.ephemeral.position(name).is_some() {
                continue; // ephemeral containers do not restart
            } else {
                let reason = format!("`{name}` is not a container of the pod");
                return Err(ModelError::new(format!("containers[{at}].name"), reason));
            };
            runtime.has_any = true;
            if let (RuntimeState::Exited, Some(code)) = (state, seen.exit_code) {
                let triggers = restarts_all(container, Exit { code, reason: &seen.reason });
                runtime.is_triggered |= reading::in_list(list, place, triggers)?;
            }
        }
        Ok(runtime)
    }
}

/// The state of a container in the runtime, which has an exit code if and only if it has ended.
fn read_state(seen: &ObservedContainer) -> Result<RuntimeState, ModelError> {
    let state = RuntimeState::parse(&seen.state, "state")?;
    exit_code(state.into(), seen.exit_code)?;
    Ok(state)
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

    /// L-RESTART-11, L-COND-18: the exit of a completed init container triggers too, as in a plan, but only with a
    /// policy of its own (L-RESTART-6).
    #[test]
    fn a_completed_init_container_triggers() {
        let check = |policy: &str| {
            let request = r#"{"pod":{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i",POLICY"restartPolicyRules":[
                {"action":"RestartAllContainers","exitCodes":{"operator":"NotIn","values":[1]}}]}]}},"phase":"Running",
                "containers":[{"name":"i","state":"Exited","exitCode":0}],"now":"2026-01-10T12:00:00Z"}"#;
            let request = serde_json::from_str(&request.replace("POLICY", policy)).unwrap();
            all_containers_restarting(&request).unwrap().conditions["AllContainersRestarting"]
                .status
                .clone()
        };
        assert_eq!(check(r#""restartPolicy":"Never","#), "True");
        assert_eq!(check(""), "False");
    }

    /// L-COND-18: each of a hundred thousand containers is found without a pass over the others.
    #[test]
    fn long_lists_are_looked_up() {
        let mut pod: Pod = serde_json::from_str(&POD.replace("CONDITIONS", "")).unwrap();
        let spec = pod.spec.as_mut().unwrap();
        let debug = spec.ephemeral_containers[0].clone();
        let mut observed = Vec::new();
        for at in 0..100_000 {
            let mut container = debug.clone();
            let name = format!("debug-{at}");
            container.ephemeral_container_common.as_mut().unwrap().name.clone_from(&name);
            let state = "Running".to_owned();
            observed.push(ObservedContainer { name, state, ..ObservedContainer::default() });
            spec.ephemeral_containers.push(container);
        }
        assert!(!InRuntime::read(&pod, &observed).unwrap().has_any);
    }

    /// L-COND-18
    #[test]
    fn bad_input_is_named() {
        let cases = [
            (
                r#"{"name":"a","state":"Running","exitCode":3}"#,
                "`containers[0].exitCode`: is `3` in state `Running`",
            ),
            (
                r#"{"name":"z","state":"Running"}"#,
                "`containers[0].name`: `z` is not a container of the pod",
            ),
            (
                r#"{"name":"a","state":"Exited"}"#,
                "`containers[0].exitCode`: required in state `Exited`",
            ),
            (
                r#"{"name":"b","state":"Running"},{"name":"b","state":"Running"}"#,
                "`containers[1].name`: duplicate name",
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
