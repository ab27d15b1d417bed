//! Objects other than nodes and pods: what they are called, and how each kind becomes facts.

use std::fmt;
use std::sync::Arc;

use berth_proto::{apps_v1, core_v1, meta_v1, policy_v1, storage_v1};

use super::controller::{Controller, ControllerKey};
use super::disruption_budget::DisruptionBudget;
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

macro_rules! kinds {
    ($($variant:ident($message:ty): $name:literal, $version:literal, $namespaced:literal;)+) => {
        /// A kind of object that placement reads besides nodes and pods.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum ObjectKind {
            $(#[doc = concat!("`", $name, "` of `", $version, "`")] $variant,)+
        }

        impl ObjectKind {
            /// All of them.
            pub const ALL: [ObjectKind; 13] = [$(ObjectKind::$variant),+];

            /// Kubernetes' name of the kind, for example `CSINode`.
            pub fn name(self) -> &'static str {
                match self { $(ObjectKind::$variant => $name,)+ }
            }

            /// The kind of this exact name.
            pub fn from_name(name: &str) -> Option<ObjectKind> {
                match name { $($name => Some(ObjectKind::$variant),)+ _ => None }
            }

            /// The `apiVersion` of its objects.
            pub fn api_version(self) -> &'static str {
                match self { $(ObjectKind::$variant => $version,)+ }
            }

            /// Whether its objects live in namespaces.
            pub fn is_namespaced(self) -> bool {
                match self { $(ObjectKind::$variant => $namespaced,)+ }
            }
        }

        /// An object other than a node or a pod, as it came over the wire.
        #[derive(Copy, Clone, Debug)]
        pub enum WireObject<'a> {
            $(#[doc = concat!("A `", $name, "`.")] $variant(&'a $message),)+
        }

        $(impl<'a> From<&'a $message> for WireObject<'a> {
            fn from(object: &'a $message) -> WireObject<'a> {
                WireObject::$variant(object)
            }
        })+

        impl WireObject<'_> {
            /// What kind of object it is.
            pub fn kind(self) -> ObjectKind {
                match self { $(WireObject::$variant(_) => ObjectKind::$variant,)+ }
            }

            /// Its metadata, if it has any.
            pub fn metadata(&self) -> Option<&meta_v1::ObjectMeta> {
                match self { $(WireObject::$variant(object) => object.metadata.as_ref(),)+ }
            }
        }
    };
}

kinds! {
    Namespace(core_v1::Namespace): "Namespace", "v1", false;
    Service(core_v1::Service): "Service", "v1", true;
    ReplicationController(core_v1::ReplicationController): "ReplicationController", "v1", true;
    ReplicaSet(apps_v1::ReplicaSet): "ReplicaSet", "apps/v1", true;
    StatefulSet(apps_v1::StatefulSet): "StatefulSet", "apps/v1", true;
    PersistentVolume(core_v1::PersistentVolume): "PersistentVolume", "v1", false;
    PersistentVolumeClaim(core_v1::PersistentVolumeClaim): "PersistentVolumeClaim", "v1", true;
    StorageClass(storage_v1::StorageClass): "StorageClass", "storage.k8s.io/v1", false;
    CsiNode(storage_v1::CsiNode): "CSINode", "storage.k8s.io/v1", false;
    CsiDriver(storage_v1::CsiDriver): "CSIDriver", "storage.k8s.io/v1", false;
    CsiStorageCapacity(storage_v1::CsiStorageCapacity): "CSIStorageCapacity", "storage.k8s.io/v1", true;
    VolumeAttachment(storage_v1::VolumeAttachment): "VolumeAttachment", "storage.k8s.io/v1", false;
    PodDisruptionBudget(policy_v1::PodDisruptionBudget): "PodDisruptionBudget", "policy/v1", true;
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names one object.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace; empty for kinds that have none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object; a namespaced one without a namespace is in `default`, and others never have one.
    pub fn new(kind: ObjectKind, namespace: &str, name: &str) -> ObjectKey {
        let namespace = match (kind.is_namespaced(), namespace) {
            (false, _) => "",
            (true, "") => "default",
            (true, namespace) => namespace,
        };
        ObjectKey { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} `{}`", self.kind, self.name),
            namespace => write!(f, "{} `{namespace}/{}`", self.kind, self.name),
        }
    }
}

/// A compiled object. Cheap to clone: everything behind it is shared.
#[derive(Clone, Debug)]
pub struct Object {
    key: ObjectKey,
    resource_version: Option<u64>,
    facts: ObjectFacts,
}

/// What the rules read of an object.
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

    /// An object like this one under another name, with what follows from the name.
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
