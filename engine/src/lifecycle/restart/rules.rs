//! `ValidateRestartRules`: whether a container's restart rules are well formed (L-RESTART-7).

use berth_proto::berth_v1::{ValidateRestartRulesRequest, ValidateRestartRulesResponse};
use berth_proto::core_v1::{Container, ContainerRestartRule};

use super::due::{ACTIONS, OPERATORS};
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::{ContainerKind, RestartPolicy};
use crate::model::ModelError;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// `ValidateRestartRules`: the wrong fields of a container's restart policy and rules (L-RESTART-7). Rules need a
/// policy beside them, also on a sidecar. An init container whose own policy is `Always` is a sidecar, and the response
/// says so. Ephemeral containers run once and have neither (L-RESTART-26).
///
/// # Errors
/// [`ModelError`] for an unknown kind or a missing container. Faults of the container are part of the response.
pub fn validate_restart_rules(
    request: &ValidateRestartRulesRequest,
) -> Result<ValidateRestartRulesResponse, ModelError> {
    let kind = ContainerKind::parse(&request.kind, "kind")?;
    let container =
        request.container.as_ref().ok_or_else(|| ModelError::new("container", "required"))?;
    let kind = match (kind, container.restart_policy.as_deref()) {
        (ContainerKind::Init, Some(policy)) if policy == RestartPolicy::Always.word() => {
            ContainerKind::Sidecar
        }
        (kind, _) => kind,
    };
    let error_fields = wrong_fields(kind, container);
    Ok(ValidateRestartRulesResponse {
        valid: error_fields.is_empty(),
        error_fields,
        kind: kind.word().to_owned(),
    })
}

fn wrong_fields(kind: ContainerKind, container: &Container) -> Vec<String> {
    let mut wrong = Vec::new();
    let policy = container.restart_policy.as_deref();
    let rules = &container.restart_policy_rules;
    if kind == ContainerKind::Ephemeral {
        if policy.is_some() {
            wrong.push("restartPolicy".to_owned());
        }
        if !rules.is_empty() {
            wrong.push("restartPolicyRules".to_owned());
        }
        return wrong;
    }
    if !is_policy_of(kind, container) || (policy.is_none() && !rules.is_empty()) {
        wrong.push("restartPolicy".to_owned());
    }
    if rules.len() > MAX_RULES {
        wrong.push("restartPolicyRules".to_owned());
    }
    // Entries beyond the limit are not checked: a hostile list must not cost more than a legal one.
    for (index, rule) in rules.iter().take(MAX_RULES).enumerate() {
        let fields = wrong_in_rule(rule).into_iter().flatten();
        wrong.extend(fields.map(|field| format!("restartPolicyRules[{index}].{field}")));
    }
    wrong
}

/// Whether a container of this kind may have its policy; without a policy it is not a sidecar (L-PHASE-3).
fn is_policy_of(kind: ContainerKind, container: &Container) -> bool {
    match container.restart_policy.as_deref() {
        None => kind != ContainerKind::Sidecar,
        Some("") => false,
        Some(_) => reading::check_kind(container, kind).is_ok(),
    }
}

fn wrong_in_rule(rule: &ContainerRestartRule) -> [Option<&'static str>; 3] {
    let action = (!ACTIONS.contains(&rule.action.as_str())).then_some("action");
    let Some(codes) = &rule.exit_codes else { return [action, Some("exitCodes"), None] };
    let operator = (!OPERATORS.contains(&codes.operator.as_str())).then_some("exitCodes.operator");
    let values = (codes.values.len() > MAX_EXIT_CODES).then_some("exitCodes.values");
    [action, operator, values]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(kind: &str, container: &str) -> Vec<String> {
        let container = serde_json::from_str(container).unwrap();
        let request =
            ValidateRestartRulesRequest { kind: kind.to_owned(), container: Some(container) };
        let answer = validate_restart_rules(&request).unwrap();
        assert_eq!(answer.valid, answer.error_fields.is_empty());
        answer.error_fields
    }

    fn rule(values: usize) -> String {
        format!(
            r#"{{"action": "Restart", "exitCodes": {{"operator": "In", "values": {:?}}}}}"#,
            vec![1; values]
        )
    }

    fn with_rules(policy: &str, rules: &[String]) -> String {
        format!(r#"{{"restartPolicy": "{policy}", "restartPolicyRules": [{}]}}"#, rules.join(","))
    }

    /// L-RESTART-7: 20 rules and 255 codes are allowed, one more is not.
    #[test]
    fn limits() {
        assert_eq!(wrong("regular", &with_rules("Never", &vec![rule(1); 20])), [""; 0]);
        assert_eq!(
            wrong("regular", &with_rules("Never", &vec![rule(1); 21])),
            ["restartPolicyRules"]
        );
        assert_eq!(wrong("init", &with_rules("OnFailure", &[rule(255)])), [""; 0]);
        assert_eq!(
            wrong("init", &with_rules("OnFailure", &[rule(1), rule(256)])),
            ["restartPolicyRules[1].exitCodes.values"]
        );
    }

    /// L-RESTART-7, L-RESTART-26.
    #[test]
    fn kinds() {
        assert_eq!(wrong("sidecar", &with_rules("Always", &[rule(1)])), [""; 0]);
        assert_eq!(wrong("sidecar", &with_rules("Never", &[rule(1)])), ["restartPolicy"]);
        assert_eq!(wrong("init", &with_rules("always", &[rule(1)])), ["restartPolicy"]);
        assert_eq!(wrong("regular", "{}"), [""; 0]);
        assert_eq!(
            wrong("ephemeral", &with_rules("Never", &[rule(1)])),
            ["restartPolicy", "restartPolicyRules"]
        );
    }

    /// L-RESTART-7, L-PHASE-3: an entry of `spec.initContainers` with the policy `Always` is a sidecar.
    #[test]
    fn an_init_container_that_always_restarts_is_a_sidecar() {
        let answer = |kind: &str, policy: &str| {
            let container = serde_json::from_str(&with_rules(policy, &[rule(1)])).unwrap();
            let (kind, container) = (kind.to_owned(), Some(container));
            let request = ValidateRestartRulesRequest { kind, container };
            let answer = validate_restart_rules(&request).unwrap();
            (answer.valid, answer.kind)
        };
        assert_eq!(answer("init", "Always"), (true, "sidecar".to_owned()));
        assert_eq!(answer("init", "OnFailure"), (true, "init".to_owned()));
        assert_eq!(answer("sidecar", "Always"), (true, "sidecar".to_owned()));
        assert_eq!(answer("regular", "Always"), (true, "regular".to_owned()));
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let rules = r#"{"restartPolicy": "always", "restartPolicyRules": [
            {}, {"action": "None", "exitCodes": {"operator": "Exists"}}]}"#;
        assert_eq!(
            wrong("regular", rules),
            [
                "restartPolicy",
                "restartPolicyRules[0].action",
                "restartPolicyRules[0].exitCodes",
                "restartPolicyRules[1].action",
                "restartPolicyRules[1].exitCodes.operator",
            ]
        );
        let error = validate_restart_rules(&ValidateRestartRulesRequest::default()).unwrap_err();
        assert_eq!(error.field, "kind");
    }
}
