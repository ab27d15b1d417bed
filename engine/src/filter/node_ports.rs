//! NodePorts: host port conflicts by address and protocol. Rules: S-PRT-1 to S-PRT-5. Reads: `UsageTable::ports`.

use super::reason::Reason;
use super::{Account, Filter, NodePods, Scope, passes};
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodePorts,
    scope: Scope::Row,
    reads: NodePods::HostPorts,
    pre_filter: passes,
    applies,
    run,
    account: Account::Always(Reason::NodePorts),
};

fn applies(prepared: &Prepared<'_>) -> bool {
    !prepared.shape().host_ports.is_empty()
}

/// Clears every row where a wanted port is used at an overlapping address (S-PRT-3).
///
/// Cost: wanted ports times distinct ports used in the shard.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    for wanted in &prepared.shape().host_ports {
        for (used, holders) in &shard.usage.ports {
            if used.conflicts_with(wanted) {
                rows.subtract(holders);
            }
        }
    }
}
