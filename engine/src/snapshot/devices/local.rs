//! The local devices of a node: what its own pools have, if it sees no others (see `local_devices`).

use std::sync::Arc;

use smallvec::SmallVec;

use super::Devices;
use super::pool::PoolState;
use crate::model::device::published::Device;
use crate::model::device::slice::ResourceSlice;
use crate::model::intern::Symbol;
use crate::snapshot::local_devices::LocalRow;

/// Most local devices of a node; the search looks at those of other nodes.
const MAX_DEVICES: usize = 64;

impl Devices {
    /// Whether no node sees devices, or faults of pools, of which it is not the only node.
    pub(crate) fn are_all_local(&self) -> bool {
        self.of_every_node.is_empty() && self.faults.is_empty()
    }

    /// The local devices of a node; `None` if it sees others that name it, or such as are not given whole.
    ///
    /// Cost: a step for each of its devices.
    pub(in crate::snapshot) fn local_to(&self, node: Symbol) -> Option<LocalRow> {
        let slices: SmallVec<[&Arc<ResourceSlice>; 4]> = self.slices_that_name(node).collect();
        let mut local = LocalRow::default();
        let mut n_devices = 0;
        for of_pool in slices.chunk_by(|a, b| a.key.pool == b.key.pool) {
            let relevant: SmallVec<[&ResourceSlice; 4]> =
                of_pool.iter().map(|slice| &***slice).collect();
            let pool = self.pool(&relevant)?;
            let is_plain = pool.state == PoolState::Valid
                && pool.counters.is_empty()
                && !pool.has_others
                && self.home(pool.key) == Some(node);
            if !is_plain {
                return None;
            }
            for slice in of_pool.iter().filter(|slice| slice.key.generation == pool.generation) {
                if slice.is_per_device || n_devices + slice.devices.len() > MAX_DEVICES {
                    return None;
                }
                for device in &slice.devices {
                    if !self.is_given_whole(device) {
                        return None;
                    }
                    if !self.allocated.is_exclusive(device.id) {
                        local.free |= 1 << n_devices;
                    }
                    n_devices += 1;
                }
                local.slices.push((*slice).clone());
            }
        }
        Some(local)
    }

    /// Whether a device is given to one claim or to none, to whichever asks.
    fn is_given_whole(&self, device: &Device) -> bool {
        let is_shared = || self.allocated.of(device.id).is_some_and(|held| !held.shares.is_empty());
        !device.is_shareable
            && device.consumes.is_empty()
            && device.taints.is_empty()
            && device.binding_conditions.is_empty()
            && device.capacities.iter().all(|(_, capacity)| capacity.policy.is_none())
            && !is_shared()
    }
}
