//! NodeUnschedulable: cordoned nodes. Rules: S-UNS-1, S-UNS-2. Reads: `NodeTable::unschedulable`, `ShapeFacts::tolerations`.

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

/// To this filter a cordoned node carries a taint, whether or not it really does; a pod that tolerates it passes.
fn applies(prepared: &Prepared<'_>) -> bool {
    let taint = Taint {
        key: Symbol::UNSCHEDULABLE_TAINT,
        value: Symbol::EMPTY,
        effect: Effect::NoSchedule,
    };
    !prepared.shape().tolerations.tolerates(&taint)
}

/// Cost: one subtraction of a bitmap.
fn run(_: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    rows.subtract(&shard.nodes.unschedulable);
}
