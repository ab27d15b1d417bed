//! NodeResourcesFit: requests against free resources. Rules: S-FIT-7 to S-FIT-13. Reads: `Allocatable`, `UsageTable`.
//!
//! A resource that a class of devices provides is not checked on nodes that have none of their own (S-FIT-12).

use smallvec::SmallVec;

use super::reason::Reason;
use super::{Account, Filter, NodePods, ReasonCounts, Refusal, Scope, passes};
use crate::kernel::FitInput;
use crate::model::intern::Symbol;
use crate::model::resources::Resource;
use crate::plugin::{Plugin, StatusCode};
use crate::prepared::Prepared;
use crate::rows::{Column, FEW, ROWS, RowSet};
use crate::snapshot::shard::Shard;

pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::NodeResourcesFit,
    scope: Scope::Row,
    reads: NodePods::Requests,
    pre_filter: passes,
    applies: |_| true,
    run,
    account: Account::ByRow { refusal, count, resolvable },
};

static ZEROS: Column<i64> = Column([0; ROWS]);

/// Clears every row without room for the request (S-FIT-8).
///
/// Cost: one pass over the native columns and one for each scalar requested.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    if rows.len() < FEW {
        let few = *rows;
        few.iter().filter(|row| !fits(prepared, shard, *row)).for_each(|row| rows.remove(row));
        return;
    }
    let request = prepared.shape().request();
    rows.intersect(&prepared.kernels.fit(&FitInput {
        allocatable: shard.nodes.allocatable.native(),
        used: shard.usage.native(),
        milli_cpu: request.milli_cpu,
        memory: request.memory,
        ephemeral_storage: request.ephemeral_storage,
    }));
    for (name, amount) in &request.scalars {
        if *amount > 0 && !rows.is_empty() && !prepared.is_ignored(*name) {
            let resource = Resource::Scalar(*name);
            let (allocatable, used) = (room_column(shard, resource), used_column(shard, resource));
            let mut fitting = prepared.kernels.fit_one(&allocatable.0, &used.0, *amount);
            fitting.union(&unchecked(prepared, shard, resource));
            rows.intersect(&fitting);
        }
    }
}

/// Whether one row has room for the request (S-FIT-8).
fn fits(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> bool {
    let request = prepared.shape().request();
    let has_room = |resource, amount| {
        amount == 0
            || amount
                <= allocatable(shard, row, resource).wrapping_sub(requested(shard, row, resource))
    };
    shard.usage.pods[row] < shard.nodes.allocatable.pods[row]
        && has_room(Resource::Cpu, request.milli_cpu)
        && has_room(Resource::Memory, request.memory)
        && has_room(Resource::EphemeralStorage, request.ephemeral_storage)
        && request.scalars.iter().all(|(name, amount)| {
            let resource = Resource::Scalar(*name);
            has_room(resource, *amount)
                || prepared.is_ignored(*name)
                || is_unchecked(prepared, shard, row, resource)
        })
}

/// Every failure of a row, in order (S-FIT-8), and the code (S-FIT-10).
fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let mut refusal = Refusal { code: StatusCode::Unschedulable, reasons: SmallVec::new() };
    if shard.usage.pods[row] >= shard.nodes.allocatable.pods[row] {
        refusal.reasons.push(Reason::TooManyPods);
    }
    for (resource, request) in checked(prepared) {
        let allocatable = allocatable(shard, row, resource);
        if is_unchecked(prepared, shard, row, resource) {
            continue;
        }
        if request > allocatable.wrapping_sub(requested(shard, row, resource)) {
            refusal.reasons.push(Reason::Insufficient(resource));
            if request > allocatable {
                refusal.code = StatusCode::UnschedulableAndUnresolvable;
            }
        }
    }
    refusal
}

/// Counts the reasons of [`refusal`]: one pass over the shard for each checked resource.
fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    let (room, usage) = (&shard.nodes.allocatable, &shard.usage);
    let short = |allocatable: &Column<i64>, used: &Column<i64>, request: i64| {
        refused.without(&prepared.kernels.fit_one(&allocatable.0, &used.0, request))
    };
    counts.add(Reason::TooManyPods, short(&room.pods, &usage.pods, 1).len());
    for (resource, request) in checked(prepared) {
        let short = short(room_column(shard, resource), used_column(shard, resource), request);
        let n_short = short.without(&unchecked(prepared, shard, resource)).len();
        counts.add(Reason::Insufficient(resource), n_short);
    }
}

/// The rows whose nodes are large enough (S-FIT-10).
fn resolvable(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet) -> RowSet {
    let mut resolvable = *refused;
    for (resource, request) in checked(prepared) {
        let allocatable = room_column(shard, resource);
        let mut large = prepared.kernels.fit_one(&allocatable.0, &ZEROS.0, request);
        large.union(&unchecked(prepared, shard, resource));
        resolvable.intersect(&large);
    }
    resolvable
}

/// Whether a resource is not checked on a row: a class of devices provides it, and the node has none of its own
/// (S-FIT-12).
pub(crate) fn is_unchecked(
    prepared: &Prepared<'_>,
    shard: &Shard,
    row: usize,
    resource: Resource,
) -> bool {
    matches!(resource, Resource::Scalar(name) if prepared.comes_from_devices(name))
        && allocatable(shard, row, resource) <= 0
}

/// The rows on which a resource is not checked (S-FIT-12).
fn unchecked(prepared: &Prepared<'_>, shard: &Shard, resource: Resource) -> RowSet {
    match resource {
        Resource::Scalar(name) if prepared.comes_from_devices(name) => {
            prepared.kernels.fit_one(&ZEROS.0, &room_column(shard, resource).0, 0)
        }
        Resource::Cpu | Resource::Memory | Resource::EphemeralStorage | Resource::Scalar(_) => {
            RowSet::EMPTY
        }
    }
}

/// The non-zero requests that are checked: native resources first, then scalars by name.
pub(crate) fn checked(prepared: &Prepared<'_>) -> SmallVec<[(Resource, i64); 4]> {
    let request = prepared.shape().request();
    let native = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage];
    let mut checked: SmallVec<[(Resource, i64); 4]> =
        native.into_iter().map(|r| (r, request.get(r))).collect();
    let mut scalars: SmallVec<[(Symbol, i64); 2]> =
        request.scalars.iter().filter(|(name, _)| !prepared.is_ignored(*name)).copied().collect();
    scalars.sort_unstable_by_key(|(name, _)| prepared.names().name(*name));
    checked.extend(scalars.into_iter().map(|(name, amount)| (Resource::Scalar(name), amount)));
    checked.retain(|(_, amount)| *amount > 0);
    checked
}

/// A node's allocatable amount of a resource.
pub(crate) fn allocatable(shard: &Shard, row: usize, resource: Resource) -> i64 {
    room_column(shard, resource)[row]
}

/// The free amount of a resource on a node; negative where more is requested than allocatable.
pub(crate) fn free(shard: &Shard, row: usize, resource: Resource) -> i64 {
    allocatable(shard, row, resource).saturating_sub(requested(shard, row, resource))
}

/// The sum of the requests of a node's pods for a resource.
pub(crate) fn requested(shard: &Shard, row: usize, resource: Resource) -> i64 {
    used_column(shard, resource)[row]
}

fn room_column(shard: &Shard, resource: Resource) -> &Column<i64> {
    let room = &shard.nodes.allocatable;
    match resource {
        Resource::Cpu => &room.milli_cpu,
        Resource::Memory => &room.memory,
        Resource::EphemeralStorage => &room.ephemeral_storage,
        Resource::Scalar(name) => room.scalar(name).unwrap_or(&ZEROS),
    }
}

fn used_column(shard: &Shard, resource: Resource) -> &Column<i64> {
    let usage = &shard.usage;
    match resource {
        Resource::Cpu => &usage.milli_cpu,
        Resource::Memory => &usage.memory,
        Resource::EphemeralStorage => &usage.ephemeral_storage,
        Resource::Scalar(name) => usage.scalar(name).unwrap_or(&ZEROS),
    }
}
