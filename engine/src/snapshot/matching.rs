//! Matching: the rows of a shard that a pod's node selector, affinity and tolerations match. Rules: S-NAF-4 to S-NAF-7,
//! S-TNT-1, W-SEL-3.

use super::node_table::{LabelKey, NodeTable};
use crate::model::intern::{Interner, Symbol};
use crate::model::selector::{
    FieldRequirement, NodeSelector, Requirement, Rule, Term, parse_bound,
};
use crate::model::taint::Tolerations;
use crate::rows::RowSet;

/// The rows whose node carries all of these keys.
pub(crate) fn with_keys<'a>(nodes: &NodeTable, keys: impl Iterator<Item = &'a Symbol>) -> RowSet {
    let mut rows = nodes.rows;
    for key in keys {
        match nodes.labels.get(key) {
            Some(label) => rows.intersect(&label.rows),
            None => return RowSet::EMPTY,
        }
    }
    rows
}

/// The rows among `rows` without an untolerated `NoSchedule` or `NoExecute` taint (S-TNT-1).
///
/// Cost: one subtraction of a bitmap for each distinct hard taint in the shard.
pub(crate) fn tolerated(tolerations: &Tolerations, nodes: &NodeTable, mut rows: RowSet) -> RowSet {
    for (taint, holders) in &nodes.hard_taints {
        if !tolerations.tolerates(taint) {
            rows.subtract(holders);
        }
    }
    rows
}

/// The rows among `rows` whose node carries all of these labels.
pub(crate) fn matching_pairs(
    pairs: &[(Symbol, Symbol)],
    nodes: &NodeTable,
    mut rows: RowSet,
) -> RowSet {
    for (key, value) in pairs {
        match nodes.labels.get(key).and_then(|label| label.values.get(value)) {
            Some(holders) => rows.intersect(holders),
            None => return RowSet::EMPTY,
        }
    }
    rows
}

/// The rows among `rows` that at least one term matches (S-NAF-5).
pub(crate) fn matching(
    selector: &NodeSelector,
    nodes: &NodeTable,
    rows: RowSet,
    names: &Interner,
) -> RowSet {
    let mut any = RowSet::EMPTY;
    for term in &selector.terms {
        any.union(&matching_term(term, nodes, rows, names));
    }
    any
}

/// The rows among `rows` that meet every requirement of a term.
pub(crate) fn matching_term(
    term: &Term,
    nodes: &NodeTable,
    mut rows: RowSet,
    names: &Interner,
) -> RowSet {
    for requirement in &term.labels {
        if rows.is_empty() {
            return rows;
        }
        match nodes.labels.get(&requirement.key) {
            Some(label) => apply(requirement, label, &mut rows, names),
            // An absent key satisfies the two negative operators only (S-NAF-6).
            None if matches!(requirement.rule, Rule::NotIn(_) | Rule::DoesNotExist) => {}
            None => return RowSet::EMPTY,
        }
    }
    for field in &term.fields {
        let row_of =
            |name: &Symbol| nodes.row_of_name.get(name).copied().into_iter().collect::<RowSet>();
        match field {
            FieldRequirement::NameIs(name) => rows.intersect(&row_of(name)),
            FieldRequirement::NameIsNot(name) => rows.subtract(&row_of(name)),
            FieldRequirement::Known(true) => {}
            FieldRequirement::Known(false) => return RowSet::EMPTY,
        }
    }
    rows
}

fn apply(requirement: &Requirement, label: &LabelKey, rows: &mut RowSet, names: &Interner) {
    match &requirement.rule {
        Rule::In(values) => rows.intersect(&holders(label, values)),
        Rule::NotIn(values) => rows.subtract(&holders(label, values)),
        Rule::Exists => rows.intersect(&label.rows),
        Rule::DoesNotExist => rows.subtract(&label.rows),
        Rule::Gt(bound) => rows.intersect(&holders_where(label, names, |value| value > *bound)),
        Rule::Lt(bound) => rows.intersect(&holders_where(label, names, |value| value < *bound)),
    }
}

fn holders(label: &LabelKey, values: &[Symbol]) -> RowSet {
    let mut rows = RowSet::EMPTY;
    for value in values {
        if let Some(holders) = label.values.get(value) {
            rows.union(holders);
        }
    }
    rows
}

/// Rows whose value parses as an integer and satisfies `accepts`. The order of values cannot affect the result, which
/// is a union.
fn holders_where(label: &LabelKey, names: &Interner, accepts: impl Fn(i64) -> bool) -> RowSet {
    let mut rows = RowSet::EMPTY;
    #[expect(clippy::iter_over_hash_type, reason = "a union does not depend on order")]
    for (value, holders) in &label.values {
        if parse_bound(&names.name(*value)).is_some_and(&accepts) {
            rows.union(holders);
        }
    }
    rows
}
