//! NodeAffinity's filter: `spec.nodeSelector`, required node affinity, and the policy's added affinity.
//! Rules: S-NAF-1 to S-NAF-8. Reads: `NodeTable::labels`, `NodeTable::row_of_name`.

use super::reason::Reason;
use super::{
    Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope, none_resolvable,
};
use crate::model::selector::NodeSelector;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::matching::{matching, matching_pairs};
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeAffinity,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter,
    applies,
    run,
    account: Account::ByRow { refusal, count, resolvable: none_resolvable },
};

/// Refuses a pod whose `metadata.name` requirements leave no name (S-NAF-2).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    match prepared.named_nodes() {
        Some([]) => Err(PreFilterFailure::Refused(NodeSelector::CONFLICT.to_owned())),
        _ => Ok(()),
    }
}

/// Whether the filter applies (S-NAF-1).
fn applies(prepared: &Prepared<'_>) -> bool {
    let shape = prepared.shape();
    shape.node_selector.is_some()
        || shape.required_affinity.is_some()
        || prepared.added_required().is_some()
}

/// Clears rows. Cost: one lookup and one bitmap operation for each value in the terms.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let names = prepared.names();
    if let Some(added) = prepared.added_required() {
        *rows = matching(added, &shard.nodes, *rows, names);
    }
    let shape = prepared.shape();
    *rows = matching_pairs(shape.node_selector.as_deref().unwrap_or(&[]), &shard.nodes, *rows);
    if let Some(required) = &shape.required_affinity {
        *rows = matching(required, &shard.nodes, *rows, names);
    }
}

/// The refusal of a row; the policy's added affinity is checked first (S-NAF-3, S-NAF-4).
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let rows: RowSet = [row].into_iter().collect();
    let is_enforced = prepared
        .added_required()
        .is_some_and(|added| matching(added, &shard.nodes, rows, prepared.names()).is_empty());
    let reason = if is_enforced { Reason::EnforcedNodeAffinity } else { Reason::NodeAffinity };
    Refusal::of(reason)
}

/// Counts the rows that the policy's added affinity refuses, and the others.
fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let passing = match prepared.added_required() {
        Some(added) => matching(added, &shard.nodes, *refused, prepared.names()),
        None => *refused,
    };
    counts.add(Reason::EnforcedNodeAffinity, refused.without(&passing).len());
    counts.add(Reason::NodeAffinity, passing.len());
}
