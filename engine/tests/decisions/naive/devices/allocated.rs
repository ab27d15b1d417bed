//! Devices that claims hold: whole devices, and shares with the capacity that each consumes. Rules: S-DRA-60, S-DRA-121, S-DRA-124.

use berth_proto::resource_v1::{DeviceRequestAllocationResult, ResourceClaim};

use crate::naive::quantity::{Nanos, nanos};

/// A device by driver, pool and name.
#[derive(Copy, Clone)]
pub(super) struct Id<'a> {
    pub(super) driver: &'a str,
    pub(super) pool: &'a str,
    pub(super) device: &'a str,
}

/// The results that hold a device; those with `adminAccess` hold nothing.
fn results<'a>(
    claims: &'a [ResourceClaim],
    id: Id<'a>,
) -> impl Iterator<Item = &'a DeviceRequestAllocationResult> {
    claims
        .iter()
        .filter_map(|claim| claim.status.as_ref()?.allocation.as_ref()?.devices.as_ref())
        .flat_map(|devices| &devices.results)
        .filter(move |result| {
            result.driver == id.driver && result.pool == id.pool && result.device == id.device
        })
        .filter(|result| result.admin_access != Some(true))
}

/// Whether a claim holds the whole device.
pub(super) fn is_exclusive(claims: &[ResourceClaim], id: Id<'_>) -> bool {
    results(claims, id).any(|result| result.share_id.is_none())
}

/// Whether any claim holds the device or a share of it.
pub(super) fn is_held(claims: &[ResourceClaim], id: Id<'_>) -> bool {
    results(claims, id).next().is_some()
}

/// Whether any claim consumes of the device's capacities.
pub(super) fn is_consumed(claims: &[ResourceClaim], id: Id<'_>) -> bool {
    results(claims, id)
        .any(|result| result.share_id.is_some() && !result.consumed_capacity.is_empty())
}

/// How much claims consume of a capacity.
pub(super) fn consumed(claims: &[ResourceClaim], id: Id<'_>, capacity: &str) -> Nanos {
    let shares = results(claims, id).filter(|result| result.share_id.is_some());
    shares.filter_map(|result| result.consumed_capacity.get(capacity)).map(nanos).sum()
}
