//! Hint: whether a change of a claim, or of a pod, may help a pod that DynamicResources rejected, as kube-scheduler's
//! queueing hints decide. The changed objects are in the cluster already. Rules: S-DRA-10, S-DRA-11.

use berth_proto::resource_v1;

use super::claims::named_claims;
use crate::model::Pod;
use crate::snapshot::devices::Devices;

/// Whether a claim that was added, or updated from `old`, may help a pod.
pub(crate) fn claim_helps(
    pod: &Pod,
    old: Option<&resource_v1::ResourceClaim>,
    new: &resource_v1::ResourceClaim,
    devices: &Devices,
) -> bool {
    let Ok(claims) = named_claims(pod, devices) else { return false };
    let is_allocated = |claim: &resource_v1::ResourceClaim| {
        claim.status.as_ref().is_some_and(|status| status.allocation.is_some())
    };
    if old.is_some_and(is_allocated) && !is_allocated(new) {
        return true;
    }
    let metadata = new.metadata.as_ref();
    let is_own = metadata.is_some_and(|metadata| {
        claims.iter().any(|claim| {
            *claim.key.namespace == *metadata.namespace && *claim.key.name == *metadata.name
        })
    });
    is_own && old.is_none_or(|old| old.status != new.status)
}

/// Whether an update of a pod may help it: its claims are there by now.
pub(crate) fn update_helps(pod: &Pod, updated: &Pod, devices: &Devices) -> bool {
    pod.is_same_as(updated) && named_claims(updated, devices).is_ok()
}
