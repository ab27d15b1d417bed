//! TaintToleration's filter: nodes with taints that the pod does not tolerate. Rules: S-TNT-1 to S-TNT-4. Reads:
//! `NodeTable::hard_taints`, `ShapeFacts::tolerations`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::matching::tolerated;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::TaintToleration,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies: |_| true,
    run,
    account: Account::Always(Reason::UntoleratedTaint),
};

/// Clears every row with an untolerated `NoSchedule` or `NoExecute` taint (S-TNT-1).
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    *rows = tolerated(&prepared.shape().tolerations, &shard.nodes, *rows);
}
