//! Objects other than nodes and pods: how each kind becomes facts.

use std::sync::Arc;

use berth_proto::meta_v1;

use super::controller::{Controller, ControllerKey};
use super::disruption_budget::DisruptionBudget;
use super::key::{ObjectKey, WireObject};
use super::label::{self, Labels, check_name};
use super::service::Service;
use super::storage::StorageObject;
use super::storage::csi_driver::CsiDriver;
use super::storage::csi_node::CsiNode;
use super::storage::csi_storage_capacity::CsiStorageCapacity;
use super::storage::persistent_volume::PersistentVolume;
use super::storage::persistent_volume_claim::PersistentVolumeClaim;
use super::storage::storage_class::StorageClass;
use super::storage::volume_attachment::VolumeAttachment;
use super::{Model, ModelError};
use crate::model::intern::Symbol;

/// A compiled object. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Object {
    key: ObjectKey,
    resource_version: Option<u64>,
    facts: ObjectFacts,
}

/// Facts of an object that the rules read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ObjectFacts {
    Namespace(Symbol, Arc<Labels>),
    Service(Arc<Service>),
    Controller(ControllerKey, Arc<Controller>),
    Storage(StorageObject),
    Budget(Arc<DisruptionBudget>),
}

impl Object {
    pub(crate) fn compile(object: WireObject<'_>, model: &Model) -> Result<Object, ModelError> {
        let Some(metadata) = object.metadata() else {
            return Err(ModelError::new("metadata", "is missing"));
        };
        check_name("metadata.name", &metadata.name)?;
        let key = ObjectKey::new(object.kind(), &metadata.namespace, &metadata.name);
        if object.kind().is_namespaced() {
            check_name("metadata.namespace", &key.namespace)?;
        }
        let facts = compile_facts(object, metadata, &key, model)?;
        Ok(Object { key, resource_version: metadata.resource_version.parse().ok(), facts })
    }

    /// An object like this one with another key, and with facts that follow from the key.
    pub(crate) fn copied(&self, key: ObjectKey, facts: ObjectFacts) -> Object {
        Object { key, facts, ..self.clone() }
    }

    /// Kind, namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn facts(&self) -> &ObjectFacts {
        &self.facts
    }

    /// `metadata.resourceVersion`, where it is a number.
    pub(crate) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }
}

fn compile_facts(
    object: WireObject<'_>,
    metadata: &meta_v1::ObjectMeta,
    key: &ObjectKey,
    model: &Model,
) -> Result<ObjectFacts, ModelError> {
    let names = model.names();
    let controller = |controller| {
        let key = ControllerKey::new(key.kind, &key.namespace, &key.name, names);
        ObjectFacts::Controller(key, Arc::new(controller))
    };
    Ok(match object {
        WireObject::Namespace(_) => ObjectFacts::Namespace(
            names.intern(&metadata.name),
            Arc::new(label::compile(&metadata.labels, names)?),
        ),
        WireObject::Service(service) => {
            ObjectFacts::Service(Arc::new(Service::compile(service, key, names)))
        }
        WireObject::ReplicationController(owner) => {
            let spec = owner.spec.as_ref();
            let n_replicas = spec.and_then(|spec| spec.replicas);
            controller(Controller::of_map(spec.map(|spec| &spec.selector), n_replicas, names))
        }
        WireObject::ReplicaSet(owner) => {
            let spec = owner.spec.as_ref();
            let selector = spec.and_then(|spec| spec.selector.as_ref());
            let n_replicas = spec.and_then(|spec| spec.replicas);
            controller(Controller::of_selector(selector, n_replicas, names))
        }
        WireObject::StatefulSet(owner) => {
            let spec = owner.spec.as_ref();
            let selector = spec.and_then(|spec| spec.selector.as_ref());
            let n_replicas = spec.and_then(|spec| spec.replicas);
            controller(Controller::of_selector(selector, n_replicas, names))
        }
        WireObject::PersistentVolume(volume) => {
            let volume = PersistentVolume::compile(volume, metadata, names)?;
            ObjectFacts::Storage(StorageObject::PersistentVolume(Arc::new(volume)))
        }
        WireObject::PersistentVolumeClaim(claim) => {
            let claim = PersistentVolumeClaim::compile(claim, metadata, key, names)?;
            ObjectFacts::Storage(StorageObject::PersistentVolumeClaim(Arc::new(claim)))
        }
        WireObject::StorageClass(class) => {
            let class = StorageClass::compile(class, key, names)?;
            ObjectFacts::Storage(StorageObject::StorageClass(Arc::new(class)))
        }
        WireObject::CsiNode(node) => {
            let node = CsiNode::compile(node, key, names)?;
            ObjectFacts::Storage(StorageObject::CsiNode(Arc::new(node)))
        }
        WireObject::CsiDriver(driver) => {
            let driver = CsiDriver::compile(driver, key, names);
            ObjectFacts::Storage(StorageObject::CsiDriver(driver))
        }
        WireObject::CsiStorageCapacity(capacity) => {
            let capacity = CsiStorageCapacity::compile(capacity, key, names)?;
            ObjectFacts::Storage(StorageObject::CsiStorageCapacity(Arc::new(capacity)))
        }
        WireObject::VolumeAttachment(attachment) => {
            let attachment = VolumeAttachment::compile(attachment, key, names)?;
            ObjectFacts::Storage(StorageObject::VolumeAttachment(Arc::new(attachment)))
        }
        WireObject::PodDisruptionBudget(budget) => {
            ObjectFacts::Budget(Arc::new(DisruptionBudget::compile(budget, key, names)))
        }
    })
}
