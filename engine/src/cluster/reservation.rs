//! Reservation: a pod that is assumed on a node, and what its placement takes.

use std::sync::Arc;

use crate::model::Pod;
use crate::model::device::assigned::AssignedDevices;
use crate::model::volume::VolumeBindings;
use crate::snapshot::bindings::Bindings;

/// A pod that was assumed, and what its placement takes.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The pod.
    pub pod: Pod,
    /// The node, which the cluster need not have yet.
    pub node: Arc<str>,
    /// Volume bindings of the pod's claims.
    pub volumes: VolumeBindings,
    /// Devices of the pod's claims.
    pub devices: Option<Arc<AssignedDevices>>,
}

impl Reservation {
    pub(super) fn of(pod: &Pod, node: &Arc<str>, bindings: &Bindings) -> Reservation {
        let Bindings { volumes, devices } = bindings.clone();
        Reservation { pod: pod.clone(), node: node.clone(), volumes, devices }
    }

    pub(super) fn bindings(&self) -> Bindings {
        Bindings { volumes: self.volumes.clone(), devices: self.devices.clone() }
    }
}
