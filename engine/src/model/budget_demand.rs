//! Demand of a PodDisruptionBudget: how many of its pods have to stay. Rules: L-PDB-1 to L-PDB-4.

use berth_proto::policy_v1::PodDisruptionBudgetSpec;
use berth_proto::{IntOrString, IntOrStringValue};

use super::ModelError;
use super::label::clip;

/// Number of pods that have to stay, or that may go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// `minAvailable`.
    AtLeast(Share),
    /// `maxUnavailable`.
    AllBut(Share),
    /// Neither is set.
    Nothing,
}

/// A number of pods, or a percentage of the expected pods.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// A number that is not negative.
    Number(i64),
    /// A percentage from 0 to 100.
    Percent(i64),
}

/// The demand of a spec.
///
/// # Errors
/// [`ModelError`] relative to the spec: both shares are set, or one is no number and no percentage (L-PDB-1).
pub(crate) fn demand(spec: &PodDisruptionBudgetSpec) -> Result<Demand, ModelError> {
    if has_both(spec) {
        return Err(both());
    }
    if let Some(share) = share("maxUnavailable", spec.max_unavailable.as_ref())? {
        return Ok(Demand::AllBut(share));
    }
    let share = share("minAvailable", spec.min_available.as_ref())?;
    Ok(share.map_or(Demand::Nothing, Demand::AtLeast))
}

impl Demand {
    /// Number of pods that have to be healthy out of those expected (L-PDB-2 to L-PDB-4).
    pub(crate) fn desired(self, expected: i64) -> i64 {
        match self {
            Demand::AtLeast(share) => share.of(expected),
            Demand::AllBut(share) => expected.saturating_sub(share.of(expected)).max(0),
            Demand::Nothing => 0,
        }
    }

    /// Whether the expected pods are the scales of the pods' controllers (L-PDB-3, L-PDB-4), and not the pods that
    /// exist (L-PDB-2).
    pub(crate) fn expects_scales(self) -> bool {
        match self {
            Demand::AtLeast(Share::Percent(_)) | Demand::AllBut(_) => true,
            Demand::AtLeast(Share::Number(_)) | Demand::Nothing => false,
        }
    }

    /// Disruptions that are allowed: as many as are healthy beyond the desired pods; none if no pod is expected
    /// (L-PDB-7, L-PDB-8).
    pub(crate) fn allowed(self, expected: i64, healthy: i64) -> i64 {
        if expected > 0 { healthy.saturating_sub(self.desired(expected)).max(0) } else { 0 }
    }
}

impl Share {
    /// Number of pods out of `whole`, rounded up (L-PDB-3, L-PDB-4).
    pub(crate) fn of(self, whole: i64) -> i64 {
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

/// Whether both shares are set, which exclude each other.
pub(crate) fn has_both(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.min_available.is_some() && spec.max_unavailable.is_some()
}

/// The error of a spec that sets both shares.
pub(crate) fn both() -> ModelError {
    ModelError::new("", "`minAvailable` and `maxUnavailable` exclude each other")
}

/// Reads a share; `None` if it is absent. Errors name `field`.
pub(crate) fn share(field: &str, value: Option<&IntOrString>) -> Result<Option<Share>, ModelError> {
    let Some(value) = value else { return Ok(None) };
    let refuse = |reason: String| Err(ModelError::new(field, reason));
    if value.is_unset() {
        return refuse("has neither a type nor a value".to_owned());
    }
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
    use super::Share;

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
