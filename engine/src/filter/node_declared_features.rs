//! NodeDeclaredFeatures: features that the pod's spec requires. Rules: S-NDF-1, S-NDF-2. Reads: `NodeTable::features`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeDeclaredFeatures,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies,
    run,
    account: Account::Always(Reason::NodeDeclaredFeatures),
};

fn applies(prepared: &Prepared<'_>) -> bool {
    !prepared.shape().features.is_empty()
}

/// Clears rows. Cost: one intersection for each required feature.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    for (feature, declaring) in shard.nodes.features.iter().enumerate() {
        if prepared.shape().features.contains(feature) {
            rows.intersect(declaring);
        }
    }
}
