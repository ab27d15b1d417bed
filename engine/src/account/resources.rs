//! NodeResourcesFit: the pod's requests beside what the node has free. Rule: S-FIT-8.

use super::at::{At, Judged, largest};
use super::comparison::{Compared, ResourceHolder};
use crate::filter::node_resources_fit::{allocatable, checked, free};
use crate::model::intern::Interner;
use crate::model::resources::Resource;
use crate::plan::counted::Filtering;

/// The number of pods, and each request that is not zero.
pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let checked = checked(plan);
    let amounts =
        checked.iter().map(|(resource, asked)| amount(plan.names(), at, *resource, *asked));
    std::iter::once(pods(at)).chain(amounts).collect()
}

fn pods(at: At<'_>) -> Judged {
    let (on_node, allowed) = (at.shard.usage.pods[at.row], at.shard.nodes.allocatable.pods[at.row]);
    let compared = Compared::Resource {
        resource: "pods".into(),
        asked: 1,
        free: allowed.saturating_sub(on_node),
        allocatable: allowed,
        holders: Vec::new(),
        n_holders: 0,
    };
    (on_node < allowed, compared)
}

fn amount(names: &Interner, at: At<'_>, resource: Resource, asked: i64) -> Judged {
    let allocatable = allocatable(at.shard, at.row, resource);
    let free = free(at.shard, at.row, resource);
    let (holders, n_holders) = holders(at, resource);
    let resource = resource.name(names);
    let compared = Compared::Resource { resource, asked, free, allocatable, holders, n_holders };
    (asked <= free, compared)
}

/// The pods of the node that request most of a resource, and the number of those that request any.
fn holders(at: At<'_>, resource: Resource) -> (Vec<ResourceHolder>, u32) {
    let placed = at.shard.pods.of(at.row).iter();
    let amounts = placed
        .map(|placed| (placed.footprint().requested.get(resource), placed.pod.key()))
        .filter(|(amount, _)| *amount > 0);
    let n_holders = amounts.clone().count() as u32;
    (largest(amounts), n_holders)
}
