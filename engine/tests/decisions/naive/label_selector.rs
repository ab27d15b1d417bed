//! Label selectors. Rules: W-SEL-1 to W-SEL-5.

use std::collections::BTreeMap;

use berth_proto::meta_v1::LabelSelector;

use super::names::{is_label_key, is_label_value};

pub(crate) type Labels = BTreeMap<String, String>;

/// A selector that parses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector {
    /// An absent selector (W-SEL-1).
    Nothing,
    /// Requirements that must all hold. Without requirements everything matches.
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// Error for a selector with an invalid part (W-SEL-4).
#[derive(Debug)]
pub(crate) struct Unparsable;

/// W-SEL-1, W-SEL-2, W-SEL-4
pub(crate) fn parse(selector: Option<&LabelSelector>) -> Result<Selector, Unparsable> {
    let Some(selector) = selector else {
        return Ok(Selector::Nothing);
    };
    let mut requirements: Vec<Requirement> =
        selector.match_labels.iter().map(|(key, value)| equality(key, value)).collect();
    for expression in &selector.match_expressions {
        requirements.push(Requirement {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone(),
        });
    }
    if requirements.iter().all(is_legal) {
        Ok(Selector::All(requirements))
    } else {
        Err(Unparsable)
    }
}

/// A map of equalities, which is never validated (W-SEL-5).
pub(crate) fn of_map(labels: &Labels) -> Selector {
    Selector::All(labels.iter().map(|(key, value)| equality(key, value)).collect())
}

pub(crate) fn equality(key: &str, value: &str) -> Requirement {
    let (key, operator) = (key.to_owned(), "In".to_owned());
    Requirement { key, operator, values: vec![value.to_owned()] }
}

fn is_legal(requirement: &Requirement) -> bool {
    let values = &requirement.values;
    let has_legal_number = match requirement.operator.as_str() {
        "In" | "NotIn" => !values.is_empty(),
        "Exists" | "DoesNotExist" => values.is_empty(),
        _ => false,
    };
    has_legal_number
        && is_label_key(&requirement.key)
        && values.iter().all(|value| is_label_value(value))
}

impl Selector {
    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|r| holds(r, labels)),
        }
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    /// Returns a selector with the requirements of both; a selector that matches nothing stays one.
    pub(crate) fn and(self, more: impl IntoIterator<Item = Requirement>) -> Selector {
        match self {
            Selector::Nothing => Selector::Nothing,
            Selector::All(requirements) => {
                Selector::All(requirements.into_iter().chain(more).collect())
            }
        }
    }
}

/// W-SEL-3
fn holds(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| requirement.values.contains(value)),
        "NotIn" => value.is_none_or(|value| !requirement.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        other => panic!("a legal requirement has no operator `{other}`"),
    }
}
