//! What Berth has written down itself, wire → engine: nothing of it is checked, since it was valid when it was written.

use berth_engine as engine;
use berth_proto::berth_v1 as wire;

use std::sync::Arc;

/// Volume bindings of a placement.
pub(crate) fn stored_volumes(stored: Option<wire::VolumeBindings>) -> engine::VolumeBindings {
    let wire::VolumeBindings { bound, provisioned } = stored.unwrap_or_default();
    let bound = bound.into_iter().map(|it| (it.claim.into(), it.persistent_volume.into()));
    let provisioned = provisioned.into_iter().map(Arc::from);
    engine::VolumeBindings { bound: bound.collect(), provisioned: provisioned.collect() }
}

/// Devices of a placement.
pub(crate) fn stored_devices(stored: wire::AssignedDevices) -> engine::AssignedDevices {
    let claims = stored.claims.into_iter().map(|it| engine::AssignedClaim {
        claim: it.claim.into(),
        allocation: it.allocation.unwrap_or_default(),
    });
    let extended = stored.extended.map(|it| engine::AssignedExtended {
        requests: it.requests,
        mappings: it.mappings,
        allocation: it.allocation.unwrap_or_default(),
    });
    engine::AssignedDevices { claims: claims.collect(), extended }
}
