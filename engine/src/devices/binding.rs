//! Binding: whether the devices of an allocated claim are ready for the pod. Rules: S-DRA-97, S-DRA-98.

use std::sync::Arc;

use crate::model::device::allocation::{AllocatedDevice, Allocation, DeviceCondition};
use crate::model::device::claim::ResourceClaim;

/// Whether the devices of a claim are ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Readiness {
    Ready,
    /// A condition is still to come.
    Pending,
    /// A driver reports that a device failed, with its reason and message.
    Failed {
        reason: Arc<str>,
        message: Arc<str>,
    },
}

/// Whether the devices of an allocated claim are ready: the first result that is not decides (S-DRA-97).
pub(crate) fn readiness(claim: &ResourceClaim) -> Readiness {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let mut each = results.map(|result| of_result(claim, result));
    each.find(|readiness| *readiness != Readiness::Ready).unwrap_or(Readiness::Ready)
}

fn of_result(claim: &ResourceClaim, result: &AllocatedDevice) -> Readiness {
    if result.binding_conditions.is_empty() {
        return Readiness::Ready;
    }
    let Some(status) = claim.devices.iter().find(|status| status.device == result.device) else {
        return Readiness::Pending;
    };
    let find = |name: &Arc<str>| {
        let is_it = |condition: &&DeviceCondition| condition.name == *name && condition.is_true;
        status.conditions.iter().find(is_it)
    };
    if let Some(failed) = result.binding_failure_conditions.iter().find_map(find) {
        let (reason, message) = (failed.reason.clone(), failed.message.clone());
        return Readiness::Failed { reason, message };
    }
    match result.binding_conditions.iter().all(|name| find(name).is_some()) {
        true => Readiness::Ready,
        false => Readiness::Pending,
    }
}

/// Whether the conditions of an allocation should have come by now, in seconds since 1970 (S-DRA-98).
pub(crate) fn has_timed_out(allocation: &Allocation, now: Option<i64>, timeout: i64) -> bool {
    let has_conditions =
        allocation.results.iter().any(|result| !result.binding_conditions.is_empty());
    let deadline = allocation.allocated_at.map(|allocated| allocated.saturating_add(timeout));
    has_conditions && deadline.zip(now).is_some_and(|(deadline, now)| deadline < now)
}
