//! In flight: claims that were allocated for assumed pods, until the cluster reports their allocation or the pod is
//! forgotten. Rules: S-DRA-92, S-DRA-93.

use std::sync::Arc;

use imbl::OrdMap;

use crate::model::device::allocation::Allocation;
use crate::model::device::assigned::AssignedDevices;
use crate::model::key::{ClaimKey, PodKey};

/// Claims in flight, and the pods they were allocated for. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    pub(super) claims: OrdMap<ClaimKey, Flight>,
    pub(super) pods: OrdMap<PodKey, Arc<AssumedClaims>>,
}

/// A claim in flight.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Flight {
    /// The pod that it was allocated for.
    pub(crate) pod: PodKey,
    pub(crate) pod_uid: Arc<str>,
    pub(super) allocation: Arc<Allocation>,
}

/// The claims that were allocated for an assumed pod.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AssumedClaims {
    pub(crate) pod_uid: Arc<str>,
    pub(crate) claims: Box<[(ClaimKey, Arc<Allocation>)]>,
    /// The devices of all claims of the pod, as a decision assigned them.
    pub(crate) assigned: Arc<AssignedDevices>,
}

/// Key under which the claim for a pod's extended resources is in flight: no object has such a name.
pub(crate) fn extended_key(namespace: &Arc<str>, pod: &str) -> ClaimKey {
    ClaimKey { namespace: namespace.clone(), name: format!("<extended-resources>/{pod}").into() }
}
