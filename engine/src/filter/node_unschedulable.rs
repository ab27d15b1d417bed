//! NodeUnschedulable: cordoned nodes. Rules: S-UNS-1, S-UNS-2.
//! Reads: `NodeTable::unschedulable`, `ShapeFacts::tolerations`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::model::intern::Symbol;
use crate::model::taint::{Effect, Taint};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeUnschedulable,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies,
    run,
    account: Account::Always(Reason::NodeUnschedulable),
};

/// Whether the filter applies: a pod that tolerates the taint of cordoned nodes passes, whether or not nodes have that
/// taint.
fn applies(prepared: &Prepared<'_>) -> bool {
    let taint = Taint {
        key: Symbol::UNSCHEDULABLE_TAINT,
        value: Symbol::EMPTY,
        effect: Effect::NoSchedule,
    };
    !prepared.shape().tolerations.tolerates(&taint)
}

/// Clears rows. Cost: one subtraction of a bitmap.
fn run(_: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    rows.subtract(&shard.nodes.unschedulable);
}
