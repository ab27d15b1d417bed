//! Demand of a budget: how many pods have to stay, and whether its spec is well formed (L-PDB-1).

use berth_proto::berth_v1::{ValidatePdbRequest, ValidatePdbResponse};
use berth_proto::policy_v1::PodDisruptionBudgetSpec;
use berth_proto::{IntOrString, IntOrStringValue};

use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label::clip;
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

/// Number of pods that have to stay, or that may go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// `minAvailable`.
    AtLeast(Share),
    /// `maxUnavailable`.
    AllBut(Share),
    /// Neither is set.
    Nothing,
}

/// A number of pods, or a percentage of the expected pods.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// A number that is not negative.
    Number(i64),
    /// A percentage from 0 to 100.
    Percent(i64),
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

/// The demand of a spec.
///
/// # Errors
/// [`ModelError`] relative to the spec, as in [`validate_pdb`].
pub(super) fn demand(spec: &PodDisruptionBudgetSpec) -> Result<Demand, ModelError> {
    if has_both(spec) {
        return Err(both());
    }
    if let Some(share) = share("maxUnavailable", spec.max_unavailable.as_ref())? {
        return Ok(Demand::AllBut(share));
    }
    let share = share("minAvailable", spec.min_available.as_ref())?;
    Ok(share.map_or(Demand::Nothing, Demand::AtLeast))
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

impl Share {
    /// Number of pods out of `whole`, rounded up (L-PDB-3, L-PDB-4).
    pub(super) fn of(self, whole: i64) -> i64 {
        match self {
            Share::Number(number) => number,
            Share::Percent(percent) => {
                let hundredths = i128::from(percent) * i128::from(whole);
                // At most `whole`, since the percentage is at most 100.
                i64::try_from((hundredths + 99).div_euclid(100)).unwrap_or(whole)
            }
        }
    }
}

fn has_both(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.min_available.is_some() && spec.max_unavailable.is_some()
}

fn both() -> ModelError {
    ModelError::new("", "`minAvailable` and `maxUnavailable` exclude each other")
}

fn share(field: &str, value: Option<&IntOrString>) -> Result<Option<Share>, ModelError> {
    let Some(value) = value else { return Ok(None) };
    let refuse = |reason: String| Err(ModelError::new(field, reason));
    match value.value() {
        Some(IntOrStringValue::Int(number)) if number < 0 => {
            refuse(format!("`{number}` is negative"))
        }
        Some(IntOrStringValue::Int(number)) => Ok(Some(Share::Number(number.into()))),
        Some(IntOrStringValue::String(text)) => match percentage(text) {
            Some(percent) if percent <= 100 => Ok(Some(Share::Percent(percent))),
            Some(_) => refuse(format!("`{}` is more than 100%", clip(text))),
            None => refuse(format!("`{}` is not a percentage such as `25%`", clip(text))),
        },
        None => refuse("must be a number or a percentage".to_owned()),
    }
}

/// Parses digits and a percent sign; a number out of range is the largest one.
fn percentage(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
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

    /// L-PDB-3, L-PDB-4: rounded up.
    #[test]
    fn shares() {
        for (percent, whole, expected) in [
            (0, 7, 0),
            (1, 7, 1),
            (50, 7, 4),
            (30, 7, 3),
            (100, 7, 7),
            (33, 0, 0),
            (100, i64::MAX, i64::MAX),
        ] {
            assert_eq!(Share::Percent(percent).of(whole), expected, "{percent}% of {whole}");
        }
        assert_eq!(Share::Number(9).of(7), 9);
    }
}
