//! ResourceClaim: the devices that it requests, and those that are allocated to it.

use std::sync::Arc;

use berth_proto::{meta_v1, resource_v1};

use super::allocation::{Allocation, DeviceStatus};
use super::shape::ClaimShape;
use crate::model::key::{ClaimKey, ObjectKey};
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// Annotation of a claim that stands for extended resources of a pod.
pub const EXTENDED_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// Facts of a claim for devices.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ResourceClaim {
    pub(crate) key: ClaimKey,
    pub(crate) uid: Arc<str>,
    /// The owner with `controller: true`.
    pub(crate) controller: Option<ClaimOwner>,
    /// Whether the annotation says that the claim stands for a pod's extended resources.
    pub(crate) is_extended: bool,
    pub(crate) is_deleting: bool,
    /// What the claim asks for.
    pub(crate) shape: Arc<ClaimShape>,
    pub(crate) allocation: Option<Allocation>,
    /// Uids in `status.reservedFor`, in order: the pods that may use the claim.
    pub(crate) reserved_for: Box<[Arc<str>]>,
    /// `status.devices`, in order.
    pub(crate) devices: Box<[DeviceStatus]>,
    /// The claim as it was fed, for writing it back: with its configuration, finalizers and version.
    pub(crate) object: Arc<resource_v1::ResourceClaim>,
}

/// The controller that owns a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClaimOwner {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

impl Compile for resource_v1::ResourceClaim {
    type Facts = ResourceClaim;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<ResourceClaim, ModelError> {
        let names = model.names();
        let spec = self.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        let status = self.status.as_ref();
        let allocation = status.and_then(|status| status.allocation.as_ref());
        let allocation = allocation.map(|allocation| Allocation::compile(allocation, names));
        let reserved_for = status.map_or(&[][..], |status| &status.reserved_for).iter();
        let devices = status.map_or(&[][..], |status| &status.devices).iter();
        let controller = metadata.controller();
        let annotation = metadata.annotations.get(EXTENDED_CLAIM_ANNOTATION);
        Ok(ResourceClaim {
            key: ClaimKey { namespace: key.namespace.clone(), name: key.name.clone() },
            uid: metadata.uid.as_str().into(),
            controller: controller.map(|owner| ClaimOwner {
                name: owner.name.as_str().into(),
                uid: owner.uid.as_str().into(),
            }),
            is_extended: annotation.is_some_and(|value| value == "true"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            shape: ClaimShape::compile(spec, names, (model.selectors(), model.claim_shapes()))
                .map_err(|error| error.under("spec.devices"))?,
            allocation: allocation.transpose().map_err(|error| error.under("status.allocation"))?,
            reserved_for: reserved_for.map(|consumer| consumer.uid.as_str().into()).collect(),
            devices: devices.map(|status| DeviceStatus::compile(status, names)).collect(),
            object: Arc::new(self.clone()),
        })
    }
}

impl ResourceClaim {
    /// Whether the claim was made for the pod of this uid. Kind and name of the owner are not compared (S-DRA-12).
    pub(crate) fn is_owned_by(&self, pod_uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|owner| *owner.uid == *pod_uid)
    }
}
