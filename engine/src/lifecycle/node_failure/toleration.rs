//! Tolerations of NoExecute taints: the one that applies to a taint, and the two that admission adds.

use berth_proto::berth_v1::{DefaultTolerationsRequest, DefaultTolerationsResponse};
use berth_proto::core_v1::{Taint, Toleration};
use smallvec::SmallVec;

use super::{NOT_READY, UNREACHABLE};
use crate::lifecycle::reading::{Seconds, in_list};
use crate::model::ModelError;
use crate::model::label::clip;
use crate::model::taint::Effect;

/// Seconds for which a pod by default tolerates a node that is not ready or unreachable (L-NODE-11).
const DEFAULT_SECONDS: Seconds = 300;

/// Keys and values that a toleration matches; `None` is any.
type Pattern<'a> = (Option<&'a str>, Option<&'a str>);

/// A pod's tolerations of NoExecute taints. They match as in scheduling (S-TNT-2), but on the wire's strings, since
/// interning does not pay for one look-up. Reading `n` tolerations and looking up `m` taints costs `(n + m) log n`
/// comparisons, and no allocation for up to eight.
pub(in crate::lifecycle) struct NoExecuteTolerations<'a> {
    tolerations: &'a [Toleration],
    /// The first position of each pattern, sorted by pattern.
    places: SmallVec<[(Pattern<'a>, usize); 8]>,
}

impl<'a> NoExecuteTolerations<'a> {
    /// # Errors
    /// [`ModelError`] at `field[i]` for an unknown operator or effect.
    pub(in crate::lifecycle) fn read(
        tolerations: &'a [Toleration],
        field: &str,
    ) -> Result<NoExecuteTolerations<'a>, ModelError> {
        let mut places = SmallVec::new();
        for (index, toleration) in tolerations.iter().enumerate() {
            let pattern = in_list(field, index, pattern(toleration))?;
            places.extend(pattern.map(|pattern| (pattern, index)));
        }
        places.sort_unstable();
        places.dedup_by_key(|(pattern, _)| *pattern);
        Ok(NoExecuteTolerations { tolerations, places })
    }

    /// The first toleration in list order that matches a taint; later ones have no effect (L-NODE-13).
    pub(super) fn first_matching(&self, taint: &Taint) -> Option<&'a Toleration> {
        let (key, value) = (taint.key.as_str(), taint.value.as_str());
        let patterns =
            [(None, None), (None, Some(value)), (Some(key), None), (Some(key), Some(value))];
        let place = |pattern: Pattern<'_>| {
            let at = self.places.binary_search_by(|(of, _)| of.cmp(&pattern)).ok()?;
            Some(self.places[at].1)
        };
        patterns.into_iter().filter_map(place).min().map(|place| &self.tolerations[place])
    }
}

/// Pattern of the NoExecute taints that a toleration matches; `None` if it is for another effect, or if its operator
/// compares numbers, which is off (L-GEN-5).
fn pattern(toleration: &Toleration) -> Result<Option<Pattern<'_>>, ModelError> {
    let value = match toleration.operator.as_str() {
        "" | "Equal" => Some(Some(toleration.value.as_str())),
        "Exists" => Some(None),
        "Lt" | "Gt" => None,
        other => {
            let reason = format!("`{}` is not a toleration operator", clip(other));
            return Err(ModelError::new("operator", reason));
        }
    };
    let is_of_effect =
        toleration.effect.is_empty() || effect(&toleration.effect)? == Effect::NoExecute;
    let key = Some(toleration.key.as_str()).filter(|key| !key.is_empty());
    Ok(value.filter(|_| is_of_effect).map(|value| (key, value)))
}

/// The effect of a taint.
///
/// # Errors
/// [`ModelError`] at `effect` for an unknown one, the empty one included.
pub(in crate::lifecycle) fn effect_of(taint: &Taint) -> Result<Effect, ModelError> {
    effect(&taint.effect)
}

fn effect(name: &str) -> Result<Effect, ModelError> {
    Effect::from_name(name)
        .ok_or_else(|| ModelError::new("effect", format!("`{}` is not a taint effect", clip(name))))
}

/// `DefaultTolerations`: admission lets a pod tolerate not-ready and unreachable nodes for five minutes, unless it has
/// tolerations for them (L-NODE-11).
///
/// # Errors
/// [`ModelError`] at `tolerations[i]` for an unknown operator or effect.
pub fn default_tolerations(
    request: &DefaultTolerationsRequest,
) -> Result<DefaultTolerationsResponse, ModelError> {
    NoExecuteTolerations::read(&request.tolerations, "tolerations")?;
    let mut tolerations = request.tolerations.clone();
    for key in [NOT_READY, UNREACHABLE] {
        // A toleration with any operator, value and seconds counts as the author's choice.
        let is_said = request.tolerations.iter().any(|toleration| {
            (toleration.key.is_empty() || toleration.key == key)
                && (toleration.effect.is_empty() || toleration.effect == Effect::NoExecute.name())
        });
        if !is_said {
            tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: Effect::NoExecute.name().to_owned(),
                toleration_seconds: Some(DEFAULT_SECONDS),
                ..Toleration::default()
            });
        }
    }
    Ok(DefaultTolerationsResponse { tolerations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Interner;
    use crate::model::taint;

    fn all_tolerations() -> Vec<Toleration> {
        let mut all = Vec::new();
        for key in ["", "k", "l"] {
            for operator in ["", "Equal", "Exists", "Lt", "Gt"] {
                for value in ["", "3", "v"] {
                    for effect in ["", "NoSchedule", "PreferNoSchedule", "NoExecute"] {
                        all.push(Toleration {
                            key: key.into(),
                            operator: operator.into(),
                            value: value.into(),
                            effect: effect.into(),
                            ..Toleration::default()
                        });
                    }
                }
            }
        }
        all
    }

    /// L-NODE-12 matches as S-TNT-2 does, without comparisons of numbers (L-GEN-5); L-NODE-13 takes the first match.
    #[test]
    fn matches_as_in_scheduling() {
        let names = Interner::new();
        let tolerations = all_tolerations();
        let every_other: Vec<_> = tolerations.iter().rev().step_by(7).cloned().collect();
        for (key, value) in [("k", ""), ("k", "3"), ("l", "v"), ("m", "v"), ("", "")] {
            let effect = "NoExecute".to_owned();
            let taint = Taint { key: key.into(), value: value.into(), effect, time_added: None };
            let compiled = taint::Taint::compile(&taint, &names).unwrap();
            let matches = |toleration: &Toleration| {
                let one = std::slice::from_ref(toleration);
                taint::Tolerations::compile(one, &names).unwrap().tolerates(&compiled)
            };
            for toleration in &tolerations {
                let one = std::slice::from_ref(toleration);
                let found = NoExecuteTolerations::read(one, "").unwrap().first_matching(&taint);
                assert_eq!(found.is_some(), matches(toleration), "{taint:?} {toleration:?}");
            }
            for list in [&tolerations, &every_other] {
                let found = NoExecuteTolerations::read(list, "").unwrap().first_matching(&taint);
                let expected = list.iter().find(|toleration| matches(toleration));
                assert_eq!(found.map(std::ptr::from_ref), expected.map(std::ptr::from_ref));
            }
        }
    }

    /// L-NODE-11: a second call adds nothing.
    #[test]
    fn defaults_are_added_once() {
        let none = DefaultTolerationsRequest { tolerations: Vec::new() };
        let tolerations = default_tolerations(&none).unwrap().tolerations;
        assert_eq!(tolerations.len(), 2);
        let again = DefaultTolerationsRequest { tolerations: tolerations.clone() };
        assert_eq!(default_tolerations(&again).unwrap().tolerations, tolerations);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let good = Toleration::default();
        for (operator, effect, text) in [
            ("exists", "", "`tolerations[1].operator`: `exists` is not a toleration operator"),
            ("", "No", "`tolerations[1].effect`: `No` is not a taint effect"),
            ("Lt", "No", "`tolerations[1].effect`: `No` is not a taint effect"),
        ] {
            let bad = Toleration {
                operator: operator.into(),
                effect: effect.into(),
                ..Toleration::default()
            };
            let request = DefaultTolerationsRequest { tolerations: vec![good.clone(), bad] };
            assert_eq!(default_tolerations(&request).unwrap_err().to_string(), text);
        }
    }
}
