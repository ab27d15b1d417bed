//! What is allocated of each device: exclusively, or in shares with the capacity that they consume. Rules: S-DRA-121,
//! S-DRA-122.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::Amount;
use imbl::OrdMap;

use crate::model::device::allocation::Allocation;
use crate::model::device::id::DeviceId;
use crate::model::key::ClaimKey;

/// Devices that any claim holds, also those that no slice has (S-DRA-122). A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocated {
    devices: OrdMap<DeviceId, DeviceUse>,
}

/// Use of a device by claims.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DeviceUse {
    /// Number of times that the device is allocated exclusively; more than 1 only where claims contradict each other.
    pub(crate) n_exclusive: u32,
    /// Shares of the device, in order.
    pub(crate) shares: Arc<BTreeMap<ShareId, ShareUse>>,
}

/// Identifies a share among those of a device: its claim, its position among the claim's results, and its id.
pub(crate) type ShareId = (ClaimKey, usize, Arc<str>);

/// Amounts that a share takes of the device's capacities, in the order of names.
pub(crate) type ShareUse = Box<[(Arc<str>, Amount)]>;

impl Allocated {
    /// Use of a device by claims; `None` if no claim holds it.
    pub(crate) fn of(&self, device: DeviceId) -> Option<&DeviceUse> {
        self.devices.get(&device)
    }

    /// Whether a claim holds the device exclusively.
    pub(crate) fn is_exclusive(&self, device: DeviceId) -> bool {
        self.of(device).is_some_and(|held| held.n_exclusive > 0)
    }

    /// Every device that some claim holds, in arbitrary order.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeviceId, &DeviceUse)> {
        self.devices.iter().map(|(device, held)| (*device, held))
    }

    /// Adds an allocation of a claim, but for devices that it uses for administration only.
    ///
    /// Cost: a step for each allocated device, and one for each share of a shared device.
    pub(super) fn add(&mut self, claim: &ClaimKey, allocation: &Allocation) {
        for (device, share) in held(claim, allocation) {
            let held = self.devices.entry(device).or_default();
            match share {
                None => held.n_exclusive += 1,
                Some((id, consumed)) => {
                    Arc::make_mut(&mut held.shares).insert(id, consumed);
                }
            }
        }
    }

    /// Removes what [`Allocated::add`] added for the claim.
    pub(super) fn remove(&mut self, claim: &ClaimKey, allocation: &Allocation) {
        for (device, share) in held(claim, allocation) {
            let Some(held) = self.devices.get_mut(&device) else { continue };
            match share {
                None => held.n_exclusive = held.n_exclusive.saturating_sub(1),
                Some((id, _)) => drop(Arc::make_mut(&mut held.shares).remove(&id)),
            }
            if *held == DeviceUse::default() {
                self.devices.remove(&device);
            }
        }
    }
}

impl DeviceUse {
    /// The amount of a capacity that all shares take together.
    pub(crate) fn consumed(&self, capacity: &str) -> Amount {
        let amounts = self.shares.values().flatten();
        amounts.filter(|(name, _)| **name == *capacity).map(|(_, amount)| *amount).sum()
    }
}

/// The devices that a claim holds, each with its share unless it is allocated exclusively (S-DRA-121).
fn held<'a>(
    claim: &'a ClaimKey,
    allocation: &'a Allocation,
) -> impl Iterator<Item = (DeviceId, Option<(ShareId, ShareUse)>)> + 'a {
    let results = allocation.results.iter().enumerate();
    results.filter(|(_, result)| !result.is_admin).map(move |(at, result)| {
        let share = result.share.as_ref().map(|share| {
            let consumed = result.consumed.iter();
            let consumed = consumed.map(|(name, amount)| (name.clone(), amount.value)).collect();
            ((claim.clone(), at, share.clone()), consumed)
        });
        (result.device, share)
    })
}
