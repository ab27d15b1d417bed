//! NodeAffinity, the hard half: `spec.nodeSelector`, required node affinity, and what the policy adds to it.
//! Rules: S-NAF-1 to S-NAF-8. Reads: `NodeTable::labels`, `NodeTable::row_of_name`.

use super::reason::Reason;
use super::{Account, Filter, ReasonCounts, Refusal};
use crate::model::intern::{Interner, Symbol};
use crate::model::selector::{
    FieldRequirement, NodeSelector, Requirement, Rule, Term, parse_bound,
};
use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::snapshot::node_table::{LabelKey, NodeTable};
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeAffinity,
    applies,
    run,
    account: Account::ByRow { refusal, count },
};

/// S-NAF-1
fn applies(prepared: &Prepared<'_>) -> bool {
    let shape = prepared.shape();
    shape.node_selector.is_some()
        || shape.required_affinity.is_some()
        || prepared.added_required().is_some()
}

/// Cost: one lookup and one bitmap operation for each value that is named.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let names = prepared.names();
    if let Some(added) = prepared.added_required() {
        *rows = matching(added, &shard.nodes, *rows, names);
    }
    let shape = prepared.shape();
    for (key, value) in shape.node_selector.iter().flatten() {
        match shard.nodes.labels.get(key).and_then(|label| label.values.get(value)) {
            Some(holders) => rows.intersect(holders),
            None => *rows = RowSet::EMPTY,
        }
    }
    if let Some(required) = &shape.required_affinity {
        *rows = matching(required, &shard.nodes, *rows, names);
    }
}

/// The policy's own affinity is looked at first (S-NAF-3, S-NAF-4).
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let rows: RowSet = [row].into_iter().collect();
    let is_enforced = prepared
        .added_required()
        .is_some_and(|added| matching(added, &shard.nodes, rows, prepared.names()).is_empty());
    let reason = if is_enforced { Reason::EnforcedNodeAffinity } else { Reason::NodeAffinity };
    Refusal {
        code: StatusCode::UnschedulableAndUnresolvable,
        reasons: [reason].into_iter().collect(),
    }
}

/// The rows that the policy's own affinity refuses, and the others.
fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let passing = match prepared.added_required() {
        Some(added) => matching(added, &shard.nodes, *refused, prepared.names()),
        None => *refused,
    };
    counts.add(Reason::EnforcedNodeAffinity, refused.without(&passing).len());
    counts.add(Reason::NodeAffinity, passing.len());
}

/// The rows among `rows` that some term matches (S-NAF-5).
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

/// Rows whose value parses as an integer and satisfies `accepts`. The order of values cannot reach the answer: it is a
/// union.
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
