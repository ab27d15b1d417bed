//! Sight: the devices that a node sees, in the order in which they are tried. Rules: S-DRA-35 to S-DRA-38, S-DRA-51.

use smallvec::SmallVec;

use super::Fatal;
use crate::model::device::published::Device;
use crate::model::device::slice::ResourceSlice;
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::{Pool, PoolState, Viewer};

/// The devices that a node sees.
pub(crate) struct Sight<'a> {
    pub(crate) pools: SmallVec<[Pool<'a>; 2]>,
    /// Devices of the valid pools, in the order of the search.
    pub(crate) candidates: Vec<Candidate<'a>>,
    /// The first pool that is incomplete or invalid.
    pub(crate) fault: Option<(usize, PoolState)>,
}

/// A device that may be tried.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) device: &'a Device,
    pub(crate) slice: &'a ResourceSlice,
    /// Position in the slice.
    pub(crate) at: usize,
    /// Whether no claim holds the device exclusively.
    pub(crate) is_free: bool,
}

impl<'a> Sight<'a> {
    /// What a node sees; an error for a node selector that does not parse.
    pub(crate) fn of(devices: &'a Devices, viewer: Viewer<'_>) -> Result<Sight<'a>, Fatal> {
        let pools = devices.pools_seen_from(viewer).map_err(|bad| {
            let (slice, why) = (bad.slice, bad.why);
            Fatal(format!(
                "gather pool information: failed to perform node selection for slice {slice}: {why}"
            ))
        })?;
        let slices = pools.iter().flat_map(|pool| pool.slices.iter().copied());
        let candidates = slices.flat_map(|slice: &'a ResourceSlice| {
            slice.devices.iter().enumerate().map(move |(at, device)| Candidate {
                device,
                slice,
                at,
                is_free: !devices.allocated.is_exclusive(device.id),
            })
        });
        let candidates = candidates.collect();
        let mut faults = pools.iter().enumerate().map(|(i, pool)| (i, pool.state));
        let fault = faults.find(|(_, state)| *state != PoolState::Valid);
        Ok(Sight { pools, candidates, fault })
    }
}

impl Candidate<'_> {
    /// Whether the node may use the device, where the slice leaves that to its devices.
    pub(crate) fn is_for(&self, viewer: Viewer<'_>) -> Result<bool, Fatal> {
        if !self.slice.is_per_device {
            return Ok(true);
        }
        viewer.is_in(&self.device.nodes).map_err(|why| {
            let name = &self.device.name;
            Fatal(format!("failed to perform node selection for device {name}: {why}"))
        })
    }
}
