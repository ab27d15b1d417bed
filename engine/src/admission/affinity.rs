//! Validation of affinity: terms that an API server refuses, and that would otherwise match nothing without a word.
//! Rule: A-VAL-6.

use berth_proto::core_v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm};

use super::outcome::AdmissionError;
use crate::model::label::clip;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the terms of node affinity, pod affinity and pod anti-affinity.
pub(super) fn check(affinity: &Affinity) -> Result<(), AdmissionError> {
    if let Some(node) = &affinity.node_affinity {
        let at = "spec.affinity.nodeAffinity";
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            let at = format!("{at}.{REQUIRED}.nodeSelectorTerms");
            if required.node_selector_terms.is_empty() {
                let reason = "Required value: must have at least one node selector term";
                return Err(AdmissionError::new(at, reason));
            }
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                check_term(term, &format!("{at}[{index}]"))?;
            }
        }
        let preferred = &node.preferred_during_scheduling_ignored_during_execution;
        for (index, term) in preferred.iter().enumerate() {
            if let Some(preference) = &term.preference {
                check_term(preference, &format!("{at}.{PREFERRED}[{index}].preference"))?;
            }
        }
    }
    if let Some(pod) = &affinity.pod_affinity {
        let required = &pod.required_during_scheduling_ignored_during_execution;
        check_keys(required.iter(), &format!("spec.affinity.podAffinity.{REQUIRED}"), "")?;
        let preferred = &pod.preferred_during_scheduling_ignored_during_execution;
        let terms = preferred.iter().filter_map(|term| term.pod_affinity_term.as_ref());
        check_keys(terms, &format!("spec.affinity.podAffinity.{PREFERRED}"), ".podAffinityTerm")?;
    }
    if let Some(pod) = &affinity.pod_anti_affinity {
        let required = &pod.required_during_scheduling_ignored_during_execution;
        check_keys(required.iter(), &format!("spec.affinity.podAntiAffinity.{REQUIRED}"), "")?;
        let preferred = &pod.preferred_during_scheduling_ignored_during_execution;
        let terms = preferred.iter().filter_map(|term| term.pod_affinity_term.as_ref());
        let at = format!("spec.affinity.podAntiAffinity.{PREFERRED}");
        check_keys(terms, &at, ".podAffinityTerm")?;
    }
    Ok(())
}

fn check_term(term: &NodeSelectorTerm, at: &str) -> Result<(), AdmissionError> {
    for (list, field) in
        [(&term.match_expressions, "matchExpressions"), (&term.match_fields, "matchFields")]
    {
        for (index, requirement) in list.iter().enumerate() {
            check_requirement(requirement, &format!("{at}.{field}[{index}]"))?;
        }
    }
    Ok(())
}

fn check_requirement(
    requirement: &NodeSelectorRequirement,
    at: &str,
) -> Result<(), AdmissionError> {
    let n_values = requirement.values.len();
    let values = |reason: &str| Err(AdmissionError::new(format!("{at}.values"), reason));
    match requirement.operator.as_str() {
        "In" | "NotIn" if n_values == 0 => {
            values("Required value: must be specified when `operator` is 'In' or 'NotIn'")
        }
        "Exists" | "DoesNotExist" if n_values > 0 => {
            values("Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        }
        "Gt" | "Lt" if n_values != 1 => {
            values("Required value: must be specified single value when `operator` is 'Lt' or 'Gt'")
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => Ok(()),
        other => {
            let reason =
                format!("Invalid value: \"{}\": not a valid selector operator", clip(other));
            Err(AdmissionError::new(format!("{at}.operator"), reason))
        }
    }
}

/// Checks that each term names its topology.
fn check_keys<'a>(
    terms: impl Iterator<Item = &'a PodAffinityTerm>,
    list: &str,
    inner: &str,
) -> Result<(), AdmissionError> {
    for (index, term) in terms.enumerate() {
        if term.topology_key.is_empty() {
            let field = format!("{list}[{index}]{inner}.topologyKey");
            return Err(AdmissionError::new(field, "Required value: can not be empty"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(affinity: &str) -> String {
        let affinity: Affinity = serde_json::from_str(affinity).unwrap();
        check(&affinity).map_or_else(|error| error.to_string(), |()| "ok".to_owned())
    }

    /// A-VAL-6
    #[test]
    fn node_terms() {
        let of = |requirement: &str| {
            refused(&format!(
                r#"{{"nodeAffinity": {{"{REQUIRED}": {{"nodeSelectorTerms": [{{"matchExpressions": [{requirement}]}}]}}}}}}"#
            ))
        };
        let at = format!("`spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let first = format!("{at}[0].matchExpressions[0]");
        assert_eq!(of(r#"{"key": "k", "operator": "In", "values": ["v"]}"#), "ok");
        assert_eq!(
            of(r#"{"key": "k", "operator": "Is"}"#),
            format!("{first}.operator`: Invalid value: \"Is\": not a valid selector operator")
        );
        for (requirement, reason) in [
            (r#"{"operator": "In"}"#, "Required value: must be specified when"),
            (r#"{"operator": "Exists", "values": ["v"]}"#, "Forbidden: may not be specified when"),
            (
                r#"{"operator": "Gt", "values": ["1", "2"]}"#,
                "Required value: must be specified single",
            ),
        ] {
            let text = of(requirement);
            assert!(text.starts_with(&format!("{first}.values`: {reason}")), "{text}");
        }
        assert_eq!(
            refused(&format!(r#"{{"nodeAffinity": {{"{REQUIRED}": {{}}}}}}"#)),
            format!("{at}`: Required value: must have at least one node selector term")
        );
        let preferred = format!(
            r#"{{"nodeAffinity": {{"{PREFERRED}": [{{"weight": 1, "preference": {{"matchFields": [{{"operator": "in"}}]}}}}]}}}}"#
        );
        assert!(refused(&preferred).contains("[0].preference.matchFields[0].operator"));
    }

    /// A-VAL-6
    #[test]
    fn topology_keys() {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let required =
                format!(r#"{{"{kind}": {{"{REQUIRED}": [{{"topologyKey": "z"}}, {{}}]}}}}"#);
            assert_eq!(
                refused(&required),
                format!(
                    "`spec.affinity.{kind}.{REQUIRED}[1].topologyKey`: Required value: can not be empty"
                )
            );
            let preferred = format!(
                r#"{{"{kind}": {{"{PREFERRED}": [{{"weight": 1, "podAffinityTerm": {{}}}}]}}}}"#
            );
            assert!(refused(&preferred).contains("[0].podAffinityTerm.topologyKey"));
        }
    }
}
