//! Restarts and their back-off (group `restart`).
//!
//! A restart never moves a pod: it happens in the pod, and on the node, where the container ran. Failed image pulls
//! have the same back-off as crashes, with a history of their own (L-RESTART-21).

mod back_off;
mod due;
mod held;
mod plan;
mod rules;
mod schedule;
mod template;

use berth_proto::berth_v1::{DecideRestartRequest, DecideRestartResponse};

pub(crate) use back_off::{BackOffLimits, FORGOTTEN_AFTER, Hold};
pub(crate) use due::{
    Candidate, DecidedBy, Exit, OOM_KILLED, RESTARTING_ALL_CONTAINERS, exit_code, restart_due,
    restarts_all,
};
pub use due::{LastState, RestartAction};
pub(crate) use held::held_back;
pub use plan::plan_containers;
pub(crate) use plan::plan_of;
pub use rules::validate_restart_rules;
pub use schedule::{backoff_schedule, same_backoff_history};
pub use template::controller_restart_policy;

use super::reading;
use super::vocabulary::{ContainerKind, RestartPolicy};
use crate::model::ModelError;

/// `DecideRestart`: whether a container is started again, and the rule or policy that decides (L-RESTART-1 to
/// L-RESTART-9, L-RESTART-22, L-RESTART-26).
///
/// # Errors
/// [`ModelError`] for an unknown word, a missing container or last state, an exit without a code or a code without an
/// exit, and a kind that contradicts the container's own policy.
pub fn decide_restart(request: &DecideRestartRequest) -> Result<DecideRestartResponse, ModelError> {
    let pod_policy = RestartPolicy::parse_or(
        &request.pod_restart_policy,
        RestartPolicy::Always,
        "podRestartPolicy",
    )?;
    let kind = ContainerKind::parse(&request.kind, "kind")?;
    let container =
        request.container.as_ref().ok_or_else(|| ModelError::new("container", "required"))?;
    reading::check_kind(container, kind).map_err(|error| error.under("container"))?;
    let last = request.last.as_ref().ok_or_else(|| ModelError::new("last", "required"))?;
    let state = LastState::parse(&last.state, "last.state")?;
    let code = exit_code(state, last.exit_code).map_err(|error| error.under("last"))?;

    let candidate = Candidate { pod_policy, pod_deleting: request.pod_deleting, kind, container };
    let verdict = match state {
        LastState::Exited => candidate
            .after_exit(Exit { code, reason: &last.reason })
            .map_err(|error| error.under("container"))?,
        state => candidate.without_exit(state),
    };
    Ok(DecideRestartResponse {
        restart: verdict.action != RestartAction::None,
        action: verdict.action.word().to_owned(),
        decided_by: verdict.decided_by.to_string(),
    })
}

impl std::fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecidedBy::Rule(index) => write!(f, "Rule[{index}]"),
            named => write!(f, "{named:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(json: &str) -> Result<String, String> {
        let request: DecideRestartRequest = serde_json::from_str(json).unwrap();
        match decide_restart(&request) {
            Ok(answer) => {
                assert_eq!(answer.restart, answer.action != "None");
                Ok(format!("{} by {}", answer.action, answer.decided_by))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn of(kind: &str, container: &str, last: &str) -> Result<String, String> {
        decide(&format!(
            r#"{{"podRestartPolicy": "Never", "kind": "{kind}", "container": {{"name": "a"{container}}}, "last": {{{last}}}}}"#
        ))
    }

    const RULE: &str = r#", "restartPolicyRules": [
        {"action": "Surprise"},
        {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0, 1]}}]"#;

    /// L-RESTART-3 to L-RESTART-5: under any policy, a container that has not ended is started unless it runs. The
    /// container's policy goes before the pod's, and only exit code 0 counts as success.
    #[test]
    fn states_and_policies() {
        for own in ["Always", "OnFailure", "Never"] {
            let own_policy = format!(r#", "restartPolicy": "{own}""#);
            for (state, expected) in [
                ("None", "Restart by NeverStarted"),
                ("Created", "Restart by StateCreated"),
                ("Running", "None by Running"),
                ("Unknown", "Restart by StateUnknown"),
            ] {
                let answer = of("regular", &own_policy, &format!(r#""state": "{state}""#));
                assert_eq!(answer.unwrap(), expected, "{own}");
            }
            for code in [i32::MIN, -1, 0, 1, 137, i32::MAX] {
                let restarts = own == "Always" || (own == "OnFailure" && code != 0);
                let action = if restarts { "Restart" } else { "None" };
                let last = format!(r#""state": "Exited", "exitCode": {code}"#);
                for kind in ["regular", "init"] {
                    if kind == "init" && (code == 0 || own == "Always") {
                        continue;
                    }
                    let answer = of(kind, &own_policy, &last).unwrap();
                    assert_eq!(answer, format!("{action} by ContainerPolicy"), "{own} {code}");
                }
            }
        }
    }

    /// L-RESTART-6: a rule without exit codes never matches, so its action is not read.
    #[test]
    fn a_sidecar_follows_its_rules_and_is_else_restarted() {
        let with_rules = format!(r#", "restartPolicy": "Always"{RULE}"#);
        let exit = |code| format!(r#""state": "Exited", "exitCode": {code}"#);
        assert_eq!(
            of("sidecar", &with_rules, &exit(7)).unwrap(),
            "RestartAllContainers by Rule[1]"
        );
        assert_eq!(of("sidecar", &with_rules, &exit(1)).unwrap(), "Restart by Sidecar");
        assert_eq!(of("regular", RULE, &exit(7)).unwrap(), "None by PodPolicy");
    }

    /// L-RESTART-26; L-RESTART-2 goes before everything.
    #[test]
    fn an_ephemeral_container_runs_once() {
        assert_eq!(of("ephemeral", "", r#""state": "None""#).unwrap(), "Restart by NeverStarted");
        for state in ["Created", "Unknown"] {
            let last = format!(r#""state": "{state}""#);
            assert_eq!(of("ephemeral", "", &last).unwrap(), "None by Ephemeral");
        }
        for state in LastState::WORDS {
            let code = if *state == "Exited" { r#", "exitCode": 9"# } else { "" };
            let answer = decide(&format!(
                r#"{{"podDeleting": true, "kind": "sidecar", "container": {{"name": "s"}}, "last": {{"state": "{state}"{code}}}}}"#
            ));
            assert_eq!(answer.unwrap(), "None by PodDeleted");
        }
    }

    /// L-PHASE-18.
    #[test]
    fn an_end_that_belongs_to_an_in_place_restart_is_no_end() {
        let last = r#""state": "Exited", "exitCode": 137, "reason": "RestartingAllContainers""#;
        assert_eq!(of("regular", "", last).unwrap(), "Restart by NeverStarted");
        assert_eq!(of("init", "", last).unwrap(), "Restart by NeverStarted");
    }

    #[test]
    fn bad_input_names_its_field() {
        let exited = r#""state": "Exited", "exitCode": 1"#;
        let bad_operator = r#", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "in"}}]"#;
        let bad_action = r#", "restartPolicy": "Never", "restartPolicyRules": [{"exitCodes": {"operator": "NotIn"}}]"#;
        for (answer, expected) in [
            (decide("{}"), "`kind`: required: one of `regular`, `init`, `sidecar`, `ephemeral`"),
            (decide(r#"{"kind": "init"}"#), "`container`: required"),
            (decide(r#"{"kind": "init", "container": {}}"#), "`last`: required"),
            (
                of("init", r#", "restartPolicy": "Always""#, exited),
                "`container.restartPolicy`: an init container of policy `Always` is a `sidecar`",
            ),
            (
                of("sidecar", r#", "restartPolicy": "Never""#, exited),
                "`container.restartPolicy`: a `sidecar` is of policy `Always`",
            ),
            (
                of("regular", "", r#""state": "exited""#),
                "`last.state`: unknown value `exited`: not one of `None`, `Created`, `Running`, `Exited`, `Unknown`",
            ),
            (
                of("regular", "", r#""state": "Exited""#),
                "`last.exitCode`: required in state `Exited`",
            ),
            (
                of("regular", "", r#""state": "Running", "exitCode": 3"#),
                "`last.exitCode`: is `3` in state `Running`",
            ),
            (
                of("regular", bad_operator, exited),
                "`container.restartPolicyRules[0].exitCodes.operator`: unknown value `in`: not one of `In`, `NotIn`",
            ),
            (
                of("regular", bad_action, exited),
                "`container.restartPolicyRules[0].action`: required: one of `Restart`, `RestartAllContainers`",
            ),
        ] {
            assert_eq!(answer.unwrap_err(), expected);
        }
    }
}
