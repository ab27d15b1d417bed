//! NodeName: pods that name their node. Rule: S-NAM-1. Reads: `NodeTable::row_of_name`, the pod's `spec.nodeName`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeName,
    scope: Scope::Request,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies,
    run,
    account: Account::Always(Reason::NodeName),
};

fn applies(prepared: &Prepared<'_>) -> bool {
    prepared.pod().node_name().is_some()
}

/// Clears rows. Cost: one lookup.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let row = prepared.node_name().and_then(|name| shard.nodes.row_of_name.get(&name));
    rows.intersect(&row.copied().into_iter().collect());
}
