//! The circumstances in which a pod is created.

use crate::snapshot::Snapshot;

/// The circumstances of a pod's creation.
#[derive(Copy, Clone, Debug)]
pub struct AdmissionContext<'a> {
    /// The cluster: its classes, limit ranges and quotas.
    pub snapshot: &'a Snapshot,
    /// Position of the pod in its request: pods that get a generated name get different ones.
    pub position: u64,
    /// Number of copies of the pod that are created; quotas count all of them.
    pub n_replicas: u32,
}
