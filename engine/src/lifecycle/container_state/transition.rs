//! Whether one state of a container may follow another.

use berth_proto::berth_v1::{CheckContainerTransitionRequest, CheckContainerTransitionResponse};
use berth_proto::core_v1::Container;

use super::ContainerOfPod;
use crate::lifecycle::reading::{self, State};
use crate::lifecycle::restart::{RestartAction, restart_due};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;

/// `CheckContainerTransition`: `terminated` may be left only if a restart is due for the old exit code, or the
/// container is a sidecar, or any container of the pod may restart them all (L-CSTATE-13). Every other step is legal.
///
/// Init containers are judged by their exit code like any other: after the loss of the pod's sandbox even a completed
/// one runs again (L-RESTART-13).
///
/// # Errors
/// [`ModelError`] for a missing container or state, an unknown word, or a state that is more than one of three
/// (L-CSTATE-1).
pub fn check_container_transition(
    request: &CheckContainerTransitionRequest,
) -> Result<CheckContainerTransitionResponse, ModelError> {
    let subject = ContainerOfPod::read(
        request.container.as_ref(),
        &request.kind,
        &request.pod_restart_policy,
    )?;
    let old = request.old.as_ref().ok_or_else(|| ModelError::new("old", "required"))?;
    let new = request.new.as_ref().ok_or_else(|| ModelError::new("new", "required"))?;
    let (old, new) = (reading::state(Some(old), "old")?, reading::state(Some(new), "new")?);
    let legal = match (old, new) {
        (Some(State::Terminated(_)), Some(State::Terminated(_))) => true,
        (Some(State::Terminated(end)), _) => {
            let due = restart_due(
                subject.pod_policy,
                subject.container,
                ContainerKind::Regular,
                end.exit_code,
                &end.reason,
                false,
            );
            subject.kind == ContainerKind::Sidecar
                || due.map_err(|error| error.under("container"))? != RestartAction::None
                || may_restart_all(subject.container)
                || request.other_containers.iter().any(may_restart_all)
        }
        _ => true,
    };
    Ok(CheckContainerTransitionResponse { legal })
}

/// Whether a container carries a rule that restarts all containers of its pod (L-CSTATE-13, L-COND-18).
pub(crate) fn may_restart_all(container: &Container) -> bool {
    let action = RestartAction::RestartAllContainers.word();
    container.restart_policy_rules.iter().any(|rule| rule.action == action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str) -> Result<bool, String> {
        let request: CheckContainerTransitionRequest = serde_json::from_str(request).unwrap();
        let answer = check_container_transition(&request);
        answer.map(|answer| answer.legal).map_err(|error| error.to_string())
    }

    /// L-CSTATE-13: a rule of a neighbour, or of the container itself, that never matched.
    #[test]
    fn a_rule_that_restarts_all_opens_every_transition() {
        let request = r#"{"podRestartPolicy":"Never","kind":"regular","container":{"name":"a"},"otherContainers":[OTHER],
            "old":{"terminated":{"exitCode":1}},"new":{"running":{}}}"#;
        let other = r#"{"name":"b","restartPolicy":"Never","restartPolicyRules":[{"action":"ACTION",
            "exitCodes":{"operator":"In","values":[9]}}]}"#;
        let with = |action: &str| request.replace("OTHER", &other.replace("ACTION", action));
        assert_eq!(check(&request.replace("OTHER", "")), Ok(false));
        assert_eq!(check(&with("Restart")), Ok(false));
        assert_eq!(check(&with("RestartAllContainers")), Ok(true));
    }

    /// L-CSTATE-13: only leaving `terminated` is guarded; a container without a state counts as waiting.
    #[test]
    fn other_steps() {
        let request =
            r#"{"podRestartPolicy":"Never","kind":"regular","container":{},"old":OLD,"new":NEW}"#;
        let step = |old: &str, new: &str| check(&request.replace("OLD", old).replace("NEW", new));
        let ended = r#"{"terminated":{"exitCode":1}}"#;
        assert_eq!(step(r#"{"running":{}}"#, r#"{"waiting":{}}"#), Ok(true));
        assert_eq!(step(r#"{"waiting":{}}"#, ended), Ok(true));
        assert_eq!(step(ended, ended), Ok(true));
        assert_eq!(step(ended, "{}"), Ok(false));
        assert_eq!(step("{}", r#"{"running":{}}"#), Ok(true));
    }

    /// L-CSTATE-13, L-RESTART-13: an init container that is done runs again in a new sandbox.
    #[test]
    fn a_completed_init_container_may_run_again() {
        let request = r#"{"podRestartPolicy":"POLICY","kind":"init","container":{},"old":{"terminated":{"exitCode":0}},
            "new":{"running":{}}}"#;
        assert_eq!(check(&request.replace("POLICY", "Always")), Ok(true));
        assert_eq!(check(&request.replace("POLICY", "Never")), Ok(false));
    }

    /// L-CSTATE-1
    #[test]
    fn bad_input_is_named() {
        let cases = [
            (r#"{}"#, "`container`: required"),
            (
                r#"{"container":{}}"#,
                "`kind`: required: one of `regular`, `init`, `sidecar`, `ephemeral`",
            ),
            (r#"{"container":{},"kind":"init"}"#, "`old`: required"),
            (r#"{"container":{},"kind":"init","old":{}}"#, "`new`: required"),
            (
                r#"{"container":{},"kind":"init","old":{},"new":{"running":{},"waiting":{}}}"#,
                "`new`: is waiting and running at once",
            ),
            (
                r#"{"container":{"restartPolicy":"Never","restartPolicyRules":[{"exitCodes":{"operator":"in"}}]},
                "kind":"init","old":{"terminated":{"exitCode":1}},"new":{}}"#,
                "`container.restartPolicyRules[0].exitCodes.operator`: unknown value `in`: not one of `In`, `NotIn`",
            ),
        ];
        for (request, expected) in cases {
            assert_eq!(check(request), Err(expected.to_owned()), "{request}");
        }
    }
}
