//! Taints and tolerations. Rules: S-TNT-1 to S-TNT-4, S-UNS-1, S-TT-1.

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label::clip;

/// A taint of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Taint {
    pub(crate) key: Symbol,
    pub(crate) value: Symbol,
    pub(crate) effect: Effect,
}

/// Effect of a taint.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A toleration, compiled for comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Toleration {
    /// The key; `None` tolerates any.
    key: Option<Symbol>,
    /// The effect; `None` tolerates any.
    effect: Option<Effect>,
    rule: Rule,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Exists,
    Equal(Symbol),
    /// `Lt` and `Gt` while their gate is off (S-TNT-2).
    Never,
}

/// A pod's tolerations, in spec order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tolerations(SmallVec<[Toleration; 4]>);

impl Effect {
    /// The effect with this exact name.
    pub(crate) fn from_name(name: &str) -> Option<Effect> {
        match name {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        }
    }

    /// The effect's name in Kubernetes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        }
    }
}

impl Taint {
    pub(crate) fn compile(taint: &core_v1::Taint, names: &Interner) -> Result<Taint, ModelError> {
        let effect = Effect::from_name(&taint.effect).ok_or_else(|| {
            ModelError::new("effect", format!("`{}` is not a taint effect", clip(&taint.effect)))
        })?;
        check_length("key", &taint.key)?;
        check_length("value", &taint.value)?;
        Ok(Taint { key: names.intern(&taint.key), value: names.intern(&taint.value), effect })
    }

    /// `key=value:Effect`, or `key:Effect` without a value.
    pub(crate) fn text(&self, names: &Interner) -> String {
        let (key, value, effect) =
            (names.name(self.key), names.name(self.value), self.effect.name());
        if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
    }
}

impl Tolerations {
    pub(crate) fn compile(
        tolerations: &[core_v1::Toleration],
        names: &Interner,
    ) -> Result<Tolerations, ModelError> {
        tolerations
            .iter()
            .enumerate()
            .map(|(i, t)| {
                Toleration::compile(t, names)
                    .map_err(|e| e.under(&format!("spec.tolerations[{i}]")))
            })
            .collect::<Result<_, _>>()
            .map(Tolerations)
    }

    /// These tolerations and one more for a key and a value, of one effect or of any.
    pub(crate) fn with(&self, key: Symbol, value: Symbol, effect: Option<Effect>) -> Tolerations {
        let mut tolerations = self.clone();
        let key = (key != Symbol::EMPTY).then_some(key);
        tolerations.0.push(Toleration { key, effect, rule: Rule::Equal(value) });
        tolerations
    }

    /// Whether a toleration matches the taint (S-TNT-2).
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.0.iter().any(|t| t.matches(taint))
    }

    /// Whether a toleration matches the taint for scoring: only those whose effect is empty or `PreferNoSchedule` count
    /// (S-TT-1).
    pub(crate) fn tolerates_softly(&self, taint: &Taint) -> bool {
        self.0
            .iter()
            .filter(|t| t.effect.is_none_or(|e| e == Effect::PreferNoSchedule))
            .any(|t| t.matches(taint))
    }
}

impl Toleration {
    fn compile(
        toleration: &core_v1::Toleration,
        names: &Interner,
    ) -> Result<Toleration, ModelError> {
        check_length("key", &toleration.key)?;
        check_length("value", &toleration.value)?;
        let rule = match toleration.operator.as_str() {
            "" | "Equal" => Rule::Equal(names.intern(&toleration.value)),
            "Exists" => Rule::Exists,
            "Lt" | "Gt" => Rule::Never,
            other => {
                return Err(ModelError::new(
                    "operator",
                    format!("`{}` is not a toleration operator", clip(other)),
                ));
            }
        };
        let effect = match toleration.effect.as_str() {
            "" => None,
            name => Some(Effect::from_name(name).ok_or_else(|| {
                ModelError::new("effect", format!("`{}` is not a taint effect", clip(name)))
            })?),
        };
        let key = (!toleration.key.is_empty()).then(|| names.intern(&toleration.key));
        Ok(Toleration { key, effect, rule })
    }

    fn matches(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && match self.rule {
                Rule::Exists => true,
                Rule::Equal(value) => value == taint.value,
                Rule::Never => false,
            }
    }
}

/// The longest legal label key: a prefix of 253, `/`, a name of 63.
const MAX_KEY: usize = 317;

fn check_length(field: &str, text: &str) -> Result<(), ModelError> {
    if text.len() > MAX_KEY {
        return Err(ModelError::new(field, format!("is longer than {MAX_KEY} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taint and toleration as `key|value|effect` and `key|operator|value|effect`.
    fn check(taint: &str, toleration: &str, expected: bool) {
        let names = Interner::new();
        let t: Vec<&str> = taint.split('|').collect();
        let taint_proto = core_v1::Taint {
            key: t[0].into(),
            value: t[1].into(),
            effect: t[2].into(),
            ..Default::default()
        };
        let o: Vec<&str> = toleration.split('|').collect();
        let toleration_proto = core_v1::Toleration {
            key: o[0].into(),
            operator: o[1].into(),
            value: o[2].into(),
            effect: o[3].into(),
            ..Default::default()
        };
        let taint_compiled = Taint::compile(&taint_proto, &names).unwrap();
        let tolerations = Tolerations::compile(&[toleration_proto], &names).unwrap();
        assert_eq!(tolerations.tolerates(&taint_compiled), expected, "{taint} {toleration}");
    }

    /// The table under S-TNT-4 and the edge cases of S-TNT-2.
    #[test]
    fn matching() {
        check("k|v|NoSchedule", "k|Equal|v|", true);
        check("k|v|NoSchedule", "k|Exists||NoExecute", false);
        check("k||NoExecute", "k|||", true);
        check("k|v|NoSchedule", "|Exists||", true);
        check("k|5|NoSchedule", "k|Gt|3|", false);
        check("k|v|NoSchedule", "|Equal|w|", false);
        check("k|v|NoSchedule", "|Equal|v|", true);
        check("k|v|NoSchedule", "j|Exists||", false);
    }

    #[test]
    fn unknown_words_are_refused_with_their_field() {
        let names = Interner::new();
        let toleration = core_v1::Toleration { operator: "Like".into(), ..Default::default() };
        let error = Tolerations::compile(&[toleration], &names).unwrap_err();
        assert_eq!(error.field, "spec.tolerations[0].operator");
        let taint = core_v1::Taint { effect: "noschedule".into(), ..Default::default() };
        assert_eq!(Taint::compile(&taint, &names).unwrap_err().field, "effect");
    }
}
