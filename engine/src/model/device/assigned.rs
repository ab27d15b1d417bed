//! Assigned: the devices that placing a pod allocates to its claims, as they are written to the API server. Rules:
//! S-DRA-85, S-DRA-106.

use std::sync::Arc;

use berth_proto::{core_v1, resource_v1};

/// Name of the claim that stands for a pod's extended resources before it is created (S-DRA-101).
pub const EXTENDED_CLAIM: &str = "<extended-resources>";

/// The devices that placing a pod allocates to its claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssignedDevices {
    /// Allocations of claims that the pod names, in its order.
    pub claims: Vec<AssignedClaim>,
    /// The claim to be made for the pod's extended resources.
    pub extended: Option<AssignedExtended>,
}

/// What is allocated to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedClaim {
    /// Name of the claim, in the pod's namespace.
    pub claim: Arc<str>,
    /// `status.allocation`, without the time.
    pub allocation: resource_v1::AllocationResult,
}

/// A claim to be made for a pod's extended resources.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedExtended {
    /// `spec.devices.requests` of the claim.
    pub requests: Vec<resource_v1::DeviceRequest>,
    /// `status.extendedResourceClaimStatus.requestMappings` of the pod.
    pub mappings: Vec<core_v1::ContainerExtendedResourceRequest>,
    /// `status.allocation` of the claim, without the time.
    pub allocation: resource_v1::AllocationResult,
}
