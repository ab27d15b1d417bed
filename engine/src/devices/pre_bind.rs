//! PreBind: what is written to the API server before a pod with claims is bound, and what it has to wait for. Rules:
//! S-DRA-94, S-DRA-95, S-DRA-97, S-DRA-99, S-DRA-106.

use std::sync::Arc;

use berth_proto::{Time, core_v1, meta_v1, resource_v1};

use super::binding::{Readiness, readiness};
use super::claims::{PodClaim, named_claims};
use crate::model::Pod;
use crate::model::device::assigned::{AssignedDevices, AssignedExtended};
use crate::model::device::claim::{EXTENDED_CLAIM_ANNOTATION, ResourceClaim};
use crate::snapshot::devices::Devices;

/// Finalizer of claims that are allocated or reserved.
pub const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// What is written before a pod is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreBind {
    /// Claims of the pod as they are after PreBind, without those that were reserved for it before.
    pub claims: Vec<resource_v1::ResourceClaim>,
    /// The claim for the pod's extended resources that has to be created first; its name is the API server's choice.
    pub extended: Option<resource_v1::ResourceClaim>,
    /// `status.extendedResourceClaimStatus.requestMappings` of the pod, where a claim is created for it.
    pub mappings: Vec<core_v1::ContainerExtendedResourceRequest>,
}

/// A claim that other programs changed or removed, or that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PreBindError(pub String);

/// What is written before a pod is bound, with the devices that its node gives (S-DRA-94).
pub(crate) fn pre_bind(
    pod: &Pod,
    assigned: Option<&AssignedDevices>,
    devices: &Devices,
    now: Time,
) -> Result<PreBind, PreBindError> {
    let mut written = PreBind::default();
    for PodClaim { claim, .. } in named_claims(pod, devices).map_err(PreBindError)? {
        let own = assigned
            .and_then(|assigned| assigned.claims.iter().find(|own| own.claim == claim.key.name));
        let allocation = own.map(|own| &own.allocation);
        let of = (&*pod.key().name, pod.uid());
        if let Some(claim) = reserved(&claim.object, of, allocation, now)? {
            written.claims.push(claim);
        }
    }
    if let Some(extended) = assigned.and_then(|assigned| assigned.extended.as_ref()) {
        if extended.mappings.is_empty() {
            return Err(PreBindError(format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                pod.key()
            )));
        }
        written.extended = Some(extended_claim(pod, extended, now));
        written.mappings.clone_from(&extended.mappings);
    }
    Ok(written)
}

/// A claim after it was allocated and reserved for a pod of this name and uid; `None` if it was reserved for the pod
/// before (S-DRA-94).
///
/// Errors: the claim is being deleted, or was allocated or deallocated in the meantime.
pub fn reserved(
    claim: &resource_v1::ResourceClaim,
    pod: (&str, &str),
    allocation: Option<&resource_v1::AllocationResult>,
    now: Time,
) -> Result<Option<resource_v1::ResourceClaim>, PreBindError> {
    let mut written = claim.clone();
    let metadata = written.metadata.get_or_insert_default();
    let status = written.status.get_or_insert_default();
    if status.reserved_for.iter().any(|consumer| consumer.uid == pod.1) {
        return Ok(None);
    }
    let key = format!("{}/{}", metadata.namespace, metadata.name);
    let fail = |how: &str| Err(PreBindError(format!("claim {key} got {how} in the meantime")));
    match (metadata.deletion_timestamp.is_some(), &status.allocation, allocation) {
        (true, ..) => return fail("deleted"),
        (_, Some(_), Some(_)) => return fail("allocated elsewhere"),
        (_, None, None) => return fail("deallocated elsewhere"),
        _ => {}
    }
    protect(metadata);
    if let Some(allocation) = allocation {
        status.allocation = Some(allocation.clone());
    }
    reserve_status(status, pod, now);
    Ok(Some(written))
}

fn reserve_status(
    status: &mut resource_v1::ResourceClaimStatus,
    (name, uid): (&str, &str),
    now: Time,
) {
    status.reserved_for.push(resource_v1::ResourceClaimConsumerReference {
        resource: "pods".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..Default::default()
    });
    if let Some(allocation) = &mut status.allocation {
        allocation.allocation_timestamp.get_or_insert(now);
    }
}

fn protect(metadata: &mut meta_v1::ObjectMeta) {
    if !metadata.finalizers.iter().any(|finalizer| finalizer == DELETE_PROTECTION) {
        metadata.finalizers.push(DELETE_PROTECTION.to_owned());
    }
}

/// The claim for a pod's extended resources as it is once it was created, allocated and reserved (S-DRA-106).
fn extended_claim(pod: &Pod, extended: &AssignedExtended, now: Time) -> resource_v1::ResourceClaim {
    let (key, uid) = (pod.key(), pod.uid());
    let mut metadata = meta_v1::ObjectMeta {
        namespace: key.namespace.to_string(),
        generate_name: format!("{}-extended-resources-", key.name),
        owner_references: vec![meta_v1::OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: key.name.to_string(),
            uid: uid.to_owned(),
            controller: Some(true),
            ..Default::default()
        }],
        ..Default::default()
    };
    metadata.annotations.insert(EXTENDED_CLAIM_ANNOTATION.to_owned(), "true".to_owned());
    protect(&mut metadata);
    let mut status = resource_v1::ResourceClaimStatus {
        allocation: Some(extended.allocation.clone()),
        ..Default::default()
    };
    reserve_status(&mut status, (&key.name, uid), now);
    let devices =
        resource_v1::DeviceClaim { requests: extended.requests.clone(), ..Default::default() };
    resource_v1::ResourceClaim {
        metadata: Some(metadata),
        spec: Some(resource_v1::ResourceClaimSpec { devices: Some(devices) }),
        status: Some(status),
    }
}

/// A claim without the reservation for a pod, if it had one (S-DRA-95).
pub fn without_reservation(
    claim: &resource_v1::ResourceClaim,
    pod_uid: &str,
) -> Option<resource_v1::ResourceClaim> {
    let mut claim = claim.clone();
    let status = claim.status.as_mut().filter(|status| status.allocation.is_some())?;
    let n_before = status.reserved_for.len();
    status.reserved_for.retain(|consumer| consumer.uid != pod_uid);
    (status.reserved_for.len() < n_before).then_some(claim)
}

/// The claims of a pod that change when its reservations are taken back, after PreBind has written some of them
/// (S-DRA-95). The claim for extended resources is deleted instead.
pub(crate) fn unreserve(
    pod: &Pod,
    written: &[resource_v1::ResourceClaim],
    devices: &Devices,
) -> Vec<resource_v1::ResourceClaim> {
    let named = named_claims(pod, devices).unwrap_or_default();
    let changed = named.iter().map(|own| own.claim).filter_map(|claim| {
        let is_it = |own: &&resource_v1::ResourceClaim| {
            own.metadata.as_ref().is_some_and(|metadata| *metadata.name == *claim.key.name)
        };
        let now = written.iter().find(is_it).unwrap_or(&claim.object);
        let given_up = without_reservation(now, pod.uid())?;
        (given_up != *claim.object).then_some(given_up)
    });
    changed.collect()
}

/// A claim without its allocation (S-DRA-100).
pub fn deallocated(claim: &resource_v1::ResourceClaim) -> resource_v1::ResourceClaim {
    let mut claim = claim.clone();
    if let Some(status) = &mut claim.status {
        status.allocation = None;
        status.reserved_for.clear();
        status.devices.clear();
    }
    claim
}

/// Conditions of an allocated device that have not come yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedDevice {
    /// Namespace of the claim.
    pub namespace: Arc<str>,
    /// Name of the claim.
    pub claim: Arc<str>,
    /// Driver of the device.
    pub driver: Arc<str>,
    /// Pool of the device.
    pub pool: Arc<str>,
    /// Name of the device.
    pub device: String,
    /// The conditions.
    pub conditions: Vec<Arc<str>>,
}

/// The claims that a pod uses: those that it names, then that for its extended resources.
pub(crate) fn used_claims<'a>(
    pod: &'a Pod,
    devices: &'a Devices,
) -> Result<Vec<&'a ResourceClaim>, PreBindError> {
    let named = named_claims(pod, devices).map_err(PreBindError)?;
    let mut claims: Vec<&ResourceClaim> = named.iter().map(|own| own.claim).collect();
    claims.extend(devices.extended_claims_of(pod.uid()).map(|claim| &**claim));
    Ok(claims)
}

/// What a pod with its claims written has to wait for, in the order of its claims (S-DRA-99); an error for a device
/// that failed.
pub(crate) fn awaited(claims: &[&ResourceClaim]) -> Result<Vec<AwaitedDevice>, PreBindError> {
    let mut awaited = Vec::new();
    for claim in claims {
        if let Readiness::Failed { reason, message } = readiness(claim) {
            let name = &claim.key.name;
            return Err(PreBindError(format!(
                "device binding failed: claim={name}, reason={reason}, message=\"{message}\""
            )));
        }
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        for (at, result) in results.enumerate() {
            let status = claim.devices.iter().find(|status| status.device == result.device);
            let has_come = |condition: &&Arc<str>| {
                let mut known = status.iter().flat_map(|status| &status.conditions);
                !known.any(|own| own.name == **condition && own.is_true)
            };
            let conditions: Vec<Arc<str>> =
                result.binding_conditions.iter().filter(has_come).cloned().collect();
            if !conditions.is_empty() {
                let written = claim.object.status.as_ref();
                let written =
                    written.and_then(|status| status.allocation.as_ref()?.devices.as_ref());
                let device = written.and_then(|devices| devices.results.get(at));
                awaited.push(AwaitedDevice {
                    namespace: claim.key.namespace.clone(),
                    claim: claim.key.name.clone(),
                    driver: result.pool.driver.clone(),
                    pool: result.pool.pool.clone(),
                    device: device.map_or_else(String::new, |device| device.device.clone()),
                    conditions,
                });
            }
        }
    }
    Ok(awaited)
}
