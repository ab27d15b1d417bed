//! Whether a budget's spec is well formed (L-PDB-1), and its policy for pods that are not ready. The number of pods that
//! have to stay is read in `model::budget_demand`.

use berth_proto::berth_v1::{ValidatePdbRequest, ValidatePdbResponse};
use berth_proto::policy_v1::PodDisruptionBudgetSpec;

use crate::lifecycle::word::words;
use crate::model::ModelError;
pub(super) use crate::model::budget_demand::{Demand, demand};
use crate::model::budget_demand::{both, has_both, share};
use crate::model::intern::Interner;
use crate::model::label_selector::LabelSelector;

words! {
    /// `unhealthyPodEvictionPolicy`: which pods that are not ready may be evicted (L-PDB-16).
    enum UnhealthyPodEvictionPolicy {
        /// Pods of an application that is healthy without them.
        IfHealthyBudget = "IfHealthyBudget",
        /// All pods that are not ready.
        AlwaysAllow = "AlwaysAllow",
    }
}

/// Whether a budget's spec is well formed (L-PDB-1): at most one of `minAvailable` and `maxUnavailable`, each a number
/// that is not negative or a percentage up to 100%; a selector that parses; a known policy for unhealthy pods.
///
/// # Errors
/// [`ModelError`] for a missing spec. Faults of the spec are part of the response.
pub fn validate_pdb(request: &ValidatePdbRequest) -> Result<ValidatePdbResponse, ModelError> {
    let spec = request.spec.as_ref().ok_or_else(|| ModelError::new("spec", "required"))?;
    let names = Interner::new();
    let selector = spec.selector.as_ref().map(|selector| LabelSelector::compile(selector, &names));
    let both = if has_both(spec) { Err(both()) } else { Ok(()) };
    let checks = [
        both,
        share("minAvailable", spec.min_available.as_ref()).map(|_| ()),
        share("maxUnavailable", spec.max_unavailable.as_ref()).map(|_| ()),
        selector.transpose().map(|_| ()).map_err(|error| error.under("selector")),
        unhealthy_policy(spec).map(|_| ()),
    ];
    let wrong = checks.into_iter().filter_map(Result::err);
    let error_fields: Vec<String> = wrong.map(|error| error.field).collect();
    Ok(ValidatePdbResponse { valid: error_fields.is_empty(), error_fields })
}

/// The policy of a spec for pods that are not ready; absent is `IfHealthyBudget` (L-PDB-16).
///
/// # Errors
/// [`ModelError`] relative to the spec for an unknown word.
pub(super) fn unhealthy_policy(
    spec: &PodDisruptionBudgetSpec,
) -> Result<UnhealthyPodEvictionPolicy, ModelError> {
    UnhealthyPodEvictionPolicy::parse_or(
        spec.unhealthy_pod_eviction_policy.as_deref().unwrap_or_default(),
        UnhealthyPodEvictionPolicy::IfHealthyBudget,
        "unhealthyPodEvictionPolicy",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(spec: &str) -> Vec<String> {
        let json = format!(r#"{{"spec": {spec}}}"#);
        let answer = validate_pdb(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(answer.valid, answer.error_fields.is_empty());
        answer.error_fields
    }

    /// L-PDB-1.
    #[test]
    fn validity() {
        for right in [
            "{}",
            r#"{"minAvailable": 0}"#,
            r#"{"minAvailable": "100%", "selector": {}}"#,
            r#"{"maxUnavailable": "0%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}"#,
            r#"{"maxUnavailable": "000000000000000000000050%"}"#,
        ] {
            assert_eq!(wrong(right), [""; 0], "{right}");
        }
        for text in ["101%", "99999999999999999999%", "50", "%", "-1%", "+1%", "5.5%", "", "5 %"] {
            assert_eq!(wrong(&format!(r#"{{"minAvailable": "{text}"}}"#)), ["minAvailable"]);
        }
        assert_eq!(
            wrong(
                r#"{"minAvailable": -1, "maxUnavailable": "x", "unhealthyPodEvictionPolicy": "Never",
                    "selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}"#
            ),
            [
                "",
                "minAvailable",
                "maxUnavailable",
                "selector.matchExpressions[0].operator",
                "unhealthyPodEvictionPolicy",
            ]
        );
        let error = validate_pdb(&ValidatePdbRequest::default()).unwrap_err();
        assert_eq!(error.to_string(), "`spec`: required");
    }
}
