//! Bindings: what placing a pod takes besides the room on its node, until the cluster reports it: volumes for its claims
//! for storage (S-VLB-9), devices for its claims for devices (S-DRA-93).

use std::sync::Arc;

use super::devices::{AssumedClaims, in_flight_key};
use super::storage::Assumption;
use crate::model::ModelError;
use crate::model::device::allocation::Allocation;
use crate::model::device::assigned::AssignedDevices;
use crate::model::intern::Interner;
use crate::model::key::{ClaimKey, PodKey};
use crate::model::volume::VolumeBindings;

/// What placing a pod on a node takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bindings {
    pub(crate) volumes: VolumeBindings,
    pub(crate) devices: Option<Arc<AssignedDevices>>,
}

/// What was taken for a pod and is released.
#[derive(Clone, Debug)]
pub(crate) struct Released {
    pub(super) volumes: Option<Arc<Assumption>>,
    pub(super) claims: Option<Arc<AssumedClaims>>,
}

/// The facts of devices assigned to a pod's claims.
pub(super) fn assumed_claims(
    (pod, uid): (&PodKey, &Arc<str>),
    devices: &Arc<AssignedDevices>,
    names: &Interner,
) -> Result<AssumedClaims, ModelError> {
    let named = devices.claims.iter().map(|assigned| {
        let (namespace, name) = (pod.namespace.clone(), assigned.claim.clone());
        (ClaimKey { namespace, name }, &assigned.allocation)
    });
    let extended = devices.extended.iter();
    let extended =
        extended.map(|extended| (in_flight_key(&pod.namespace, &pod.name), &extended.allocation));
    let claims = named
        .chain(extended)
        .map(|(key, allocation)| Ok((key, Arc::new(Allocation::compile(allocation, names)?))));
    let claims = claims.collect::<Result<_, ModelError>>()?;
    Ok(AssumedClaims { pod_uid: uid.clone(), claims, assigned: devices.clone() })
}
