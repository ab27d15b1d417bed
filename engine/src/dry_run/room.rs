//! Room: state of NodeResourcesFit on one node. Rules: S-FIT-8, S-FIT-10.

use smallvec::SmallVec;

use crate::filter::Refusal;
use crate::filter::node_resources_fit::{allocatable, checked, requested};
use crate::filter::reason::Reason;
use crate::model::resources::Resource;
use crate::model::shape::Footprint;
use crate::plugin::StatusCode;
use crate::prepared::Prepared;
use crate::snapshot::shard::Shard;

/// The resources that are checked, with the pod's request of each.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    requests: SmallVec<[(Resource, i64); 4]>,
    /// Those among them that are not checked on nodes that have none of their own (S-FIT-12).
    from_devices: SmallVec<[Resource; 0]>,
}

/// Free amount of a resource on a node where it is not checked: more than pods can take.
const UNCHECKED: i64 = i64::MAX / 2;

/// Free amounts of the checked resources on a node, and free places for pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    pub(crate) n_places: i64,
    pub(crate) free: Amounts,
}

/// Amounts of the checked resources, in their order.
pub(crate) type Amounts = SmallVec<[i64; 4]>;

impl Wanted {
    pub(crate) fn of(prepared: &Prepared<'_>) -> Wanted {
        let requests = checked(prepared);
        let is_from_devices = |resource: &Resource| matches!(resource, Resource::Scalar(name) if prepared.comes_from_devices(*name));
        let from_devices = requests.iter().map(|(resource, _)| *resource).filter(is_from_devices);
        Wanted { from_devices: from_devices.collect(), requests }
    }

    pub(crate) fn room(&self, shard: &Shard, row: usize) -> Room {
        let free = |resource| {
            let allocatable = allocatable(shard, row, resource);
            if allocatable <= 0 && self.from_devices.contains(&resource) {
                return UNCHECKED;
            }
            allocatable.wrapping_sub(requested(shard, row, resource))
        };
        Room {
            n_places: shard.nodes.allocatable.pods[row].wrapping_sub(shard.usage.pods[row]),
            free: self.requests.iter().map(|(resource, _)| free(*resource)).collect(),
        }
    }

    /// The amounts that the pod requests.
    pub(crate) fn amounts(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.requests.iter().map(|(_, amount)| *amount)
    }

    /// The amounts that a pod takes of the checked resources.
    pub(crate) fn taken_by<'f>(
        &'f self,
        footprint: &'f Footprint,
    ) -> impl Iterator<Item = i64> + 'f {
        self.requests.iter().map(|(resource, _)| footprint.requested.get(*resource))
    }
}

impl Room {
    /// Frees the amounts of `by` pods with this footprint; takes them where `by` is negative.
    pub(crate) fn change(&mut self, wanted: &Wanted, footprint: &Footprint, by: i64) {
        self.n_places += by;
        for (free, taken) in self.free.iter_mut().zip(wanted.taken_by(footprint)) {
            *free = free.wrapping_add(by.wrapping_mul(taken));
        }
    }

    pub(crate) fn fits(&self, wanted: &Wanted) -> bool {
        self.n_places >= 1
            && self.free.iter().zip(&wanted.requests).all(|(free, (_, amount))| amount <= free)
    }

    /// Every failure, in order (S-FIT-8), and the code (S-FIT-10).
    pub(super) fn refusal(&self, wanted: &Wanted, shard: &Shard, row: usize) -> Option<Refusal> {
        let mut refusal = Refusal { code: StatusCode::Unschedulable, reasons: SmallVec::new() };
        if self.n_places < 1 {
            refusal.reasons.push(Reason::TooManyPods);
        }
        for ((resource, amount), free) in wanted.requests.iter().zip(&self.free) {
            if amount > free {
                refusal.reasons.push(Reason::Insufficient(*resource));
                if *amount > allocatable(shard, row, *resource) {
                    refusal.code = StatusCode::UnschedulableAndUnresolvable;
                }
            }
        }
        (!refusal.reasons.is_empty()).then_some(refusal)
    }
}
