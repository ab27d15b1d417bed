//! Label selectors over pods and namespaces, compiled to interned requirements. Rules: W-SEL-1 to W-SEL-4.
//!
//! An absent selector is `None` at every use: it matches nothing. An empty one matches everything.

use berth_proto::meta_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label::{Labels, clip, is_label_value, is_qualified_name};
use super::selector::{Requirement, Rule};

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LabelSelector {
    pub(crate) requirements: SmallVec<[Requirement; 1]>,
}

impl LabelSelector {
    /// Compiles a selector; one part that does not parse invalidates the whole (W-SEL-4).
    pub(crate) fn compile(
        selector: &meta_v1::LabelSelector,
        names: &Interner,
    ) -> Result<LabelSelector, ModelError> {
        let mut requirements = SmallVec::new();
        for (key, value) in &selector.match_labels {
            check_key(key).map_err(|error| error.under(&format!("matchLabels[{}]", clip(key))))?;
            check_value(value).map_err(|error| error.under(&format!("matchLabels[{key}]")))?;
            let rule = Rule::In([names.intern(value)].into_iter().collect());
            requirements.push(Requirement { key: names.intern(key), rule });
        }
        for (i, expression) in selector.match_expressions.iter().enumerate() {
            let requirement = compile_expression(expression, names)
                .map_err(|error| error.under(&format!("matchExpressions[{i}]")))?;
            requirements.push(requirement);
        }
        Ok(LabelSelector { requirements })
    }

    pub(crate) fn of(requirements: SmallVec<[Requirement; 1]>) -> LabelSelector {
        LabelSelector { requirements }
    }

    /// Whether the selector is empty and so matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether all requirements hold.
    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }

    /// A requirement with its allowed values, of which every matching object has one for the key.
    pub(crate) fn anchor(&self) -> Option<(Symbol, &[Symbol])> {
        self.requirements.iter().find_map(|requirement| match &requirement.rule {
            Rule::In(values) => Some((requirement.key, values.as_slice())),
            _ => None,
        })
    }
}

impl Requirement {
    /// Whether an object's labels meet the requirement (W-SEL-3). `Gt` and `Lt`, which label selectors do not have, are
    /// never met.
    pub(crate) fn holds(&self, labels: &Labels) -> bool {
        let value = value_of(labels, self.key);
        match &self.rule {
            Rule::In(values) => value.is_some_and(|value| values.contains(&value)),
            Rule::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Rule::Exists => value.is_some(),
            Rule::DoesNotExist => value.is_none(),
            Rule::Gt(_) | Rule::Lt(_) => false,
        }
    }
}

/// The value of a label; `labels` are sorted by key.
pub(crate) fn value_of(labels: &Labels, key: Symbol) -> Option<Symbol> {
    let at = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(labels[at].1)
}

fn compile_expression(
    expression: &meta_v1::LabelSelectorRequirement,
    names: &Interner,
) -> Result<Requirement, ModelError> {
    check_key(&expression.key).map_err(|error| error.under("key"))?;
    for (i, value) in expression.values.iter().enumerate() {
        check_value(value).map_err(|error| error.under(&format!("values[{i}]")))?;
    }
    let (operator, values) = (expression.operator.as_str(), &expression.values);
    let symbols = || {
        let mut symbols: SmallVec<[Symbol; 2]> =
            values.iter().map(|value| names.intern(value)).collect();
        symbols.sort_unstable();
        symbols.dedup();
        symbols
    };
    let rule = match operator {
        "In" | "NotIn" if values.is_empty() => {
            let reason = format!("`{operator}` needs at least one value");
            return Err(ModelError::new("values", reason));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            return Err(ModelError::new("values", format!("`{operator}` takes no values")));
        }
        "In" => Rule::In(symbols()),
        "NotIn" => Rule::NotIn(symbols()),
        "Exists" => Rule::Exists,
        "DoesNotExist" => Rule::DoesNotExist,
        other => {
            let reason = format!("`{}` is not a label selector operator", clip(other));
            return Err(ModelError::new("operator", reason));
        }
    };
    Ok(Requirement { key: names.intern(&expression.key), rule })
}

fn check_key(key: &str) -> Result<(), ModelError> {
    if is_qualified_name(key) {
        return Ok(());
    }
    Err(ModelError::new("", format!("`{}` is not a legal label key", clip(key))))
}

fn check_value(value: &str) -> Result<(), ModelError> {
    if is_label_value(value) {
        return Ok(());
    }
    Err(ModelError::new("", format!("`{}` is not a legal label value", clip(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: &str) -> meta_v1::LabelSelector {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn evaluation() {
        let names = Interner::new();
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            let mut labels: Vec<_> =
                pairs.iter().map(|(k, v)| (names.intern(k), names.intern(v))).collect();
            labels.sort_unstable();
            labels.into()
        };
        let check = |json: &str, pairs: &[(&str, &str)], expected: bool| {
            let compiled = LabelSelector::compile(&selector(json), &names).unwrap();
            assert_eq!(compiled.matches(&labels(pairs)), expected, "{json} {pairs:?}");
        };
        check("{}", &[], true);
        check(r#"{"matchLabels": {"a": ""}}"#, &[("a", "")], true);
        check(r#"{"matchLabels": {"a": ""}}"#, &[], false);
        let expression = |operator: &str, values: &str| {
            format!(
                r#"{{"matchExpressions": [{{"key": "a", "operator": "{operator}", "values": {values}}}]}}"#
            )
        };
        for (operator, values, absent, x, z) in [
            ("In", r#"["x", "y"]"#, false, true, false),
            ("NotIn", r#"["x", "y"]"#, true, false, true),
            ("Exists", "[]", false, true, true),
            ("DoesNotExist", "[]", true, false, false),
        ] {
            let json = expression(operator, values);
            check(&json, &[], absent);
            check(&json, &[("a", "x"), ("b", "x")], x);
            check(&json, &[("a", "z")], z);
        }
    }

    #[test]
    fn parse_errors_name_their_field() {
        let names = Interner::new();
        for (json, field) in [
            (r#"{"matchLabels": {"-": "x"}}"#, "matchLabels[-]"),
            (r#"{"matchLabels": {"a": "-"}}"#, "matchLabels[a]"),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}"#,
                "matchExpressions[0].operator",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#,
                "matchExpressions[0].values",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}"#,
                "matchExpressions[0].values",
            ),
            (
                r#"{"matchExpressions": [{"key": "/", "operator": "Exists"}]}"#,
                "matchExpressions[0].key",
            ),
        ] {
            let error = LabelSelector::compile(&selector(json), &names).unwrap_err();
            assert_eq!(error.field, field, "{error}");
        }
    }
}
