//! Shares: how many copies each node takes where each node decides that by itself.

use crate::filter::node_resources_fit::{allocatable, checked, requested};
use crate::filter::{Filter, Scope};
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// How many copies each of the rows takes that would take the first one. `None` where more fit than may be placed, so that it
/// matters who comes first, and where a copy may matter to copies on other nodes.
///
/// A filter of [`Scope::Row`] reads nothing but the row and the shape, and of what a copy without volumes changes about its row only room and
/// host ports: so the copies on a row are as many as its room and its ports allow, whatever happens elsewhere.
pub(super) fn shares(
    plan: &Filtering<'_, '_>,
    open: &[RowSet],
    limit: usize,
) -> Option<Vec<(NodeRow, usize)>> {
    let runs = |plugin| plan.filters().iter().any(|filter: &&Filter| filter.plugin == plugin);
    let is_by_row = plan.filters().iter().all(|filter| filter.scope == Scope::Row)
        && plan.promised().is_empty()
        && plan.pod().volumes().is_none()
        && runs(Plugin::NodeResourcesFit);
    if !is_by_row {
        return None;
    }
    let has_ports = runs(Plugin::NodePorts) && !plan.shape().host_ports.is_empty();
    let (mut shares, mut n_fit) = (Vec::new(), 0_usize);
    for (shard, rows) in plan.snapshot().shards.iter().zip(open) {
        for row in rows.iter() {
            let room = room(plan, shard, row);
            let n = if has_ports { room.min(1) } else { room };
            n_fit = n_fit.checked_add(n).filter(|n_fit| *n_fit <= limit)?;
            shares.push((NodeRow::new(shard.index, row), n));
        }
    }
    Some(shares)
}

/// How many copies a row has room for, in number and in every resource that is checked (S-FIT-8).
fn room(plan: &Plan<'_>, shard: &Shard, row: usize) -> usize {
    let slots = shard.nodes.allocatable.pods[row].saturating_sub(shard.usage.pods[row]);
    let checked = checked(plan);
    let by_resource = checked.iter().map(|(resource, request)| {
        allocatable(shard, row, *resource).saturating_sub(requested(shard, row, *resource))
            / request
    });
    usize::try_from(by_resource.fold(slots, i64::min)).unwrap_or(0)
}
