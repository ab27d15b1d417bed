//! Utilization: a node's resources as NodeResourcesFit's strategies read them. Rules: S-RS-1, S-RS-2.

use crate::filter::node_resources_fit::{allocatable, requested};
use crate::kernel::{AllocationInput, ResourceInput};
use crate::model::resources::Resource;
use crate::prepared::Prepared;
use crate::rows::{FEW, RowSet};
use crate::snapshot::shard::Shard;

/// One resource of one node, with the pod on it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Utilization {
    pub(crate) resource: Resource,
    /// The allocatable amount, greater than 0.
    pub(crate) allocatable: i64,
    /// The amount in use with the pod; may exceed `allocatable`.
    pub(crate) requested: i64,
    pub(crate) weight: i64,
}

/// The resources of a row that count (S-RS-1, S-RS-2). Devices stand for a resource that the node has none of
/// (S-RS-9).
pub(crate) fn utilizations<'a>(
    prepared: &'a Prepared<'_>,
    shard: &'a Shard,
    row: usize,
) -> impl Iterator<Item = Utilization> + 'a {
    prepared.fit_resources().iter().filter_map(move |(resource, weight)| {
        let pod = prepared.shape().score_request.get(*resource);
        if pod == 0 && matches!(resource, Resource::Scalar(_)) {
            return None;
        }
        let allocatable = allocatable(shard, row, *resource);
        if allocatable == 0 {
            let (allocatable, used) = prepared.counted_devices(shard, row, *resource)?;
            let requested = used.saturating_add(pod);
            return Some(Utilization {
                resource: *resource,
                allocatable,
                requested,
                weight: *weight,
            });
        }
        let used = match resource {
            Resource::Cpu => shard.usage.non_zero_milli_cpu[row],
            Resource::Memory => shard.usage.non_zero_memory[row],
            Resource::EphemeralStorage | Resource::Scalar(_) => requested(shard, row, *resource),
        };
        let requested = used.saturating_add(pod);
        Some(Utilization { resource: *resource, allocatable, requested, weight: *weight })
    })
}

/// Computes ⌊100 · part / whole⌋ for whole > 0.
pub(super) fn percent(part: i64, whole: i64) -> i64 {
    match part.checked_mul(100) {
        Some(hundredfold) => hundredfold / whole,
        None => (i128::from(part) * 100 / i128::from(whole)) as i64,
    }
}

/// The weighted mean of a score over the resources that count; 0 if none does.
pub(super) fn weighted_mean(
    utilizations: impl Iterator<Item = Utilization>,
    score: fn(Utilization) -> i64,
) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for utilization in utilizations {
        sum += score(utilization) * utilization.weight;
        weights += utilization.weight;
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// Whether the kernels' bounds hold for a set of rows: only CPU and memory are scored, and both are exact.
pub(super) fn is_exact(prepared: &Prepared<'_>, shard: &Shard, rows: &RowSet) -> bool {
    rows.len() >= FEW
        && rows.without(&shard.nodes.allocatable.exact).is_empty()
        && !prepared.fit_resources().is_empty()
        && prepared
            .fit_resources()
            .iter()
            .all(|(r, _)| matches!(r, Resource::Cpu | Resource::Memory))
}

/// The columns of CPU and memory for the kernels; [`is_exact`] must hold.
pub(super) fn input<'a>(prepared: &Prepared<'_>, shard: &'a Shard) -> AllocationInput<'a> {
    let (room, usage) = (&shard.nodes.allocatable, &shard.usage);
    let request = &prepared.shape().score_request;
    let weight = |resource| {
        let mut scored = prepared.fit_resources().iter().filter(|(scored, _)| *scored == resource);
        scored.next().map_or(0, |(_, weight)| *weight)
    };
    let cpu = ResourceInput {
        allocatable: &room.milli_cpu.0,
        inverse: &room.inverse_milli_cpu.0,
        used: &usage.non_zero_milli_cpu.0,
        request: request.milli_cpu,
        weight: weight(Resource::Cpu),
    };
    let memory = ResourceInput {
        allocatable: &room.memory.0,
        inverse: &room.inverse_memory.0,
        used: &usage.non_zero_memory.0,
        request: request.memory,
        weight: weight(Resource::Memory),
    };
    AllocationInput { resources: [cpu, memory] }
}
