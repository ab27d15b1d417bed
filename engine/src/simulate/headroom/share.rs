//! Shares: how many copies each node takes where copies on different nodes do not affect each other.

use crate::filter::node_resources_fit::{allocatable, checked, requested};
use crate::filter::{Filter, NodePods};
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// How many copies each of the rows with room takes. `None` where more fit than may be placed, so that their order
/// matters, and where a copy may affect copies on other nodes.
///
/// Where every filter reads only the row and the shape ([`Scope::Row`](crate::filter::Scope::Row)), and of the row's
/// pods only their requests and host ports, the copies on a row are as many as its room and its ports allow, whatever
/// happens elsewhere.
pub(super) fn shares(
    plan: &Filtering<'_, '_>,
    open: &[RowSet],
    limit: usize,
) -> Option<Vec<(NodeRow, usize)>> {
    let runs = |reads| plan.filters().iter().any(|filter| filter.reads == reads);
    let is_by_row = plan.filters().iter().all(|filter| is_by_row(filter))
        && plan.promised().is_empty()
        && plan.pod().volumes().is_none()
        && plan.devices().found().is_none()
        && runs(NodePods::Requests);
    if !is_by_row {
        return None;
    }
    let has_ports = runs(NodePods::HostPorts) && !plan.shape().host_ports.is_empty();
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

/// Whether a filter's verdict on a row changes only with the copies on that row, and only by their requests and host
/// ports.
fn is_by_row(filter: &Filter) -> bool {
    let is_known = match filter.reads {
        NodePods::Nothing | NodePods::Requests | NodePods::HostPorts => true,
        NodePods::ExclusiveVolumes
        | NodePods::AttachedVolumes
        | NodePods::SpreadCounts
        | NodePods::Affinity => false,
    };
    is_known && filter.scope.is_row()
}

/// The number of copies that a row has room for, by number of pods and every checked resource (S-FIT-8).
fn room(plan: &Plan<'_>, shard: &Shard, row: usize) -> usize {
    let slots = shard.nodes.allocatable.pods[row].saturating_sub(shard.usage.pods[row]);
    let checked = checked(plan);
    let by_resource = checked.iter().map(|(resource, request)| {
        allocatable(shard, row, *resource).saturating_sub(requested(shard, row, *resource))
            / request
    });
    usize::try_from(by_resource.fold(slots, i64::min)).unwrap_or(0)
}
