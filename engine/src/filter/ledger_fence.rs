//! Fences of the ledger: nodes that are being cut off, or have been. Rules: S-FNC-1, S-FNC-3.
//! Reads: `NodeTable::fenced`.
//!
//! No plugin of kube-scheduler knows of fences, so no profile can turn this check off and no toleration passes it. It
//! takes part before the policy's filters wherever filters run, if the snapshot has a fence at all.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

/// The check. Its reason stands under NodeUnschedulable, the plugin of nodes that take no new pods.
pub(crate) const FENCE: Filter = Filter {
    plugin: Plugin::NodeUnschedulable,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies,
    run,
    account: Account::Always(Reason::Fenced),
};

impl Filter {
    /// Whether this is the check for fences, which is no plugin's.
    pub(crate) fn is_fence(&self) -> bool {
        matches!(self.account, Account::Always(Reason::Fenced))
    }
}

/// Whether any node is fenced. A fence changes the version of its row, so what is remembered of other rows stays valid.
fn applies(prepared: &Prepared<'_>) -> bool {
    !prepared.snapshot().fences.is_empty()
}

/// Clears rows. Cost: one subtraction of a bitmap.
fn run(_: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    rows.subtract(&shard.nodes.fenced);
}
