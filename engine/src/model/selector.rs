//! Node selectors compiled to interned requirements.
//! Rules: S-NAF-2, S-NAF-5 to S-NAF-8, S-NA-1, S-NA-2, W-SEL-3, W-SEL-4.

use berth_proto::core_v1;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label::{clip, is_label_value, is_qualified_name};

/// One requirement on a node's labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requirement {
    pub(crate) key: Symbol,
    pub(crate) rule: Rule,
}

/// The rule that the label of a requirement's key must satisfy (S-NAF-6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    In(SmallVec<[Symbol; 2]>),
    NotIn(SmallVec<[Symbol; 2]>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

/// One requirement on a node's fields (S-NAF-7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldRequirement {
    NameIs(Symbol),
    NameIsNot(Symbol),
    /// The known result for a field that nodes do not expose, which reads as the empty text.
    Known(bool),
}

/// A valid, non-empty term: all of its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) labels: SmallVec<[Requirement; 2]>,
    pub(crate) fields: SmallVec<[FieldRequirement; 1]>,
}

/// A required node selector: any term must match; an empty list matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeSelector {
    /// Valid, non-empty terms (S-NAF-5, S-NAF-8).
    pub(crate) terms: Vec<Term>,
    /// Names to which `metadata.name` narrows the nodes, sorted; empty means that the terms conflict (S-NAF-2).
    pub(crate) names: Option<Vec<Symbol>>,
}

/// Preferred terms with their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodePreferences {
    /// Terms with weight 0 and empty terms are left out (S-NA-2).
    pub(crate) terms: Vec<(i32, Term)>,
    /// Why the attempt fails when it comes to scoring: a term that does not parse.
    pub(crate) invalid: Option<String>,
}

impl NodeSelector {
    /// kube-scheduler's text for `metadata.name` requirements that leave no name (S-NAF-2).
    pub(crate) const CONFLICT: &str = "pod affinity terms conflict";

    /// Compiles a selector. Never fails: a term that does not parse matches nothing (S-NAF-8).
    pub(crate) fn compile(selector: &core_v1::NodeSelector, names: &Interner) -> NodeSelector {
        NodeSelector {
            terms: selector
                .node_selector_terms
                .iter()
                .filter(|term| !is_empty(term) && check_term(term).is_ok())
                .map(|term| compile_term(term, names))
                .collect(),
            names: narrow(&selector.node_selector_terms, names),
        }
    }

    /// The first fault of a selector, for readers that refuse a selector with a term that does not parse.
    pub(crate) fn fault(selector: &core_v1::NodeSelector) -> Option<ModelError> {
        selector.node_selector_terms.iter().enumerate().find_map(|(i, term)| {
            let checked = if is_empty(term) { Ok(()) } else { check_term(term) };
            checked.err().map(|error| error.under(&format!("nodeSelectorTerms[{i}]")))
        })
    }
}

impl NodePreferences {
    /// Compiles preferences. Fails for a weight above 100 or below 0; a term that does not parse is recorded in
    /// `invalid`.
    pub(crate) fn compile(
        terms: &[core_v1::PreferredSchedulingTerm],
        names: &Interner,
    ) -> Result<NodePreferences, ModelError> {
        let mut preferences = NodePreferences::default();
        for (i, term) in terms.iter().enumerate() {
            check_weight(i, term)?;
            let Some(preference) =
                term.preference.as_ref().filter(|p| term.weight != 0 && !is_empty(p))
            else {
                continue;
            };
            match check_term(preference) {
                Ok(()) => preferences.terms.push((term.weight, compile_term(preference, names))),
                Err(error) => {
                    preferences.invalid.get_or_insert(error.to_string());
                }
            }
        }
        Ok(preferences)
    }

    /// Checks an added affinity: every term must parse, or the configuration is refused (S-NAF-8).
    pub(crate) fn check_added(added: &core_v1::NodeAffinity) -> Result<(), ModelError> {
        if let Some(required) = &added.required_during_scheduling_ignored_during_execution {
            for (i, term) in required.node_selector_terms.iter().enumerate() {
                let at = format!(
                    "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
                );
                check_term(term).map_err(|error| error.under(&at))?;
            }
        }
        for (i, term) in
            added.preferred_during_scheduling_ignored_during_execution.iter().enumerate()
        {
            check_weight(i, term)?;
            if let Some(preference) = &term.preference {
                check_term(preference)
                    .map_err(|error| error.under(&format!("{PREFERRED}[{i}].preference")))?;
            }
        }
        Ok(())
    }
}

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn check_weight(index: usize, term: &core_v1::PreferredSchedulingTerm) -> Result<(), ModelError> {
    if (0..=100).contains(&term.weight) {
        return Ok(());
    }
    let reason = format!("{} is not in the range 1 to 100", term.weight);
    Err(ModelError::new(format!("{PREFERRED}[{index}].weight"), reason))
}

fn is_empty(term: &core_v1::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// Union over terms of the intersection of their `metadata.name In` values; `None` if some term has none (S-NAF-2).
/// Values count as written, even of invalid terms.
fn narrow(terms: &[core_v1::NodeSelectorTerm], names: &Interner) -> Option<Vec<Symbol>> {
    if terms.is_empty() {
        return None;
    }
    let mut union: Vec<Symbol> = Vec::new();
    for term in terms {
        let mut of_term: Option<Vec<&String>> = None;
        for field in
            term.match_fields.iter().filter(|f| f.key == "metadata.name" && f.operator == "In")
        {
            match &mut of_term {
                None => of_term = Some(field.values.iter().collect()),
                // Uses a set, because comparing long lists pairwise is quadratic.
                Some(values) => {
                    let also: FxHashSet<&String> = field.values.iter().collect();
                    values.retain(|value| also.contains(value));
                }
            }
        }
        union.extend(of_term?.into_iter().map(|name| names.intern(name)));
    }
    union.sort_unstable();
    union.dedup();
    Some(union)
}

/// Checks the validity of a term (W-SEL-4, W-FLD-1, S-NAF-6, S-NAF-7).
fn check_term(term: &core_v1::NodeSelectorTerm) -> Result<(), ModelError> {
    for (i, r) in term.match_expressions.iter().enumerate() {
        check_label(r).map_err(|error| error.under(&format!("matchExpressions[{i}]")))?;
    }
    for (i, r) in term.match_fields.iter().enumerate() {
        check_field(r).map_err(|error| error.under(&format!("matchFields[{i}]")))?;
    }
    Ok(())
}

fn check_label(r: &core_v1::NodeSelectorRequirement) -> Result<(), ModelError> {
    if !is_qualified_name(&r.key) {
        return Err(ModelError::new("key", format!("`{}` is not a legal label key", clip(&r.key))));
    }
    match r.operator.as_str() {
        "In" | "NotIn" if r.values.is_empty() => {
            return Err(ModelError::new(
                "values",
                format!("`{}` needs at least one value", r.operator),
            ));
        }
        "Exists" | "DoesNotExist" if !r.values.is_empty() => {
            return Err(ModelError::new("values", format!("`{}` takes no values", r.operator)));
        }
        "Gt" | "Lt" if r.values.len() != 1 || parse_bound(&r.values[0]).is_none() => {
            return Err(ModelError::new(
                "values",
                format!("`{}` needs exactly one integer", r.operator),
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            return Err(ModelError::new(
                "operator",
                format!("`{}` is not a node selector operator", clip(other)),
            ));
        }
    }
    for (i, value) in r.values.iter().enumerate() {
        if !is_label_value(value) {
            let reason = format!("`{}` is not a legal label value", clip(value));
            return Err(ModelError::new(format!("values[{i}]"), reason));
        }
    }
    Ok(())
}

fn check_field(r: &core_v1::NodeSelectorRequirement) -> Result<(), ModelError> {
    if !matches!(r.operator.as_str(), "In" | "NotIn") {
        return Err(ModelError::new(
            "operator",
            format!("`{}` is not a field operator", clip(&r.operator)),
        ));
    }
    if r.values.len() != 1 {
        return Err(ModelError::new("values", "must be exactly one"));
    }
    Ok(())
}

/// Parses a base-10 integer; leading zeros are allowed (W-SEL-3).
pub(crate) fn parse_bound(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Compiles a term that has passed [`check_term`].
fn compile_term(term: &core_v1::NodeSelectorTerm, names: &Interner) -> Term {
    let bound = |r: &core_v1::NodeSelectorRequirement| {
        r.values.first().and_then(|v| parse_bound(v)).unwrap_or(0)
    };
    let values =
        |r: &core_v1::NodeSelectorRequirement| r.values.iter().map(|v| names.intern(v)).collect();
    let rule = |r: &core_v1::NodeSelectorRequirement| match r.operator.as_str() {
        "In" => Rule::In(values(r)),
        "NotIn" => Rule::NotIn(values(r)),
        "Exists" => Rule::Exists,
        "Gt" => Rule::Gt(bound(r)),
        "Lt" => Rule::Lt(bound(r)),
        _ => Rule::DoesNotExist,
    };
    let field = |r: &core_v1::NodeSelectorRequirement| {
        let value = r.values.first().map_or("", String::as_str);
        match (r.key.as_str(), r.operator.as_str()) {
            ("metadata.name", "In") => FieldRequirement::NameIs(names.intern(value)),
            ("metadata.name", _) => FieldRequirement::NameIsNot(names.intern(value)),
            (_, "In") => FieldRequirement::Known(value.is_empty()),
            (_, _) => FieldRequirement::Known(!value.is_empty()),
        }
    };
    Term {
        labels: term
            .match_expressions
            .iter()
            .map(|r| Requirement { key: names.intern(&r.key), rule: rule(r) })
            .collect(),
        fields: term.match_fields.iter().map(field).collect(),
    }
}
