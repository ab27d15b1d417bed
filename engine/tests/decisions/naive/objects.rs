//! Objects other than nodes and pods, as received over the wire, in one map.

use std::collections::BTreeMap;
use std::fmt;

use berth_engine::WireObject;
use berth_proto::{apps_v1, core_v1, meta_v1, policy_v1, storage_v1};

/// Kind, namespace (empty for cluster-scoped kinds) and name.
pub(crate) type Key = (&'static str, String, String);

macro_rules! kinds {
    ($($variant:ident($message:ty): $name:literal, $namespaced:literal, $as:ident;)+) => {
        /// An object of any of the kinds that the rules read.
        #[derive(Clone)]
        pub(crate) enum AnyObject {
            $($variant($message),)+
        }

        impl AnyObject {
            /// Returns the Kubernetes name of the object's kind.
            pub(crate) fn kind(&self) -> &'static str {
                match self { $(AnyObject::$variant(_) => $name,)+ }
            }

            pub(crate) fn metadata(&self) -> &meta_v1::ObjectMeta {
                let metadata = match self { $(AnyObject::$variant(object) => &object.metadata,)+ };
                metadata.as_ref().expect("objects have metadata")
            }

            pub(crate) fn metadata_mut(&mut self) -> &mut meta_v1::ObjectMeta {
                match self { $(AnyObject::$variant(object) => object.metadata.get_or_insert_default(),)+ }
            }

            /// Returns the object in the form that the engine reads.
            pub(crate) fn wire(&self) -> WireObject<'_> {
                match self { $(AnyObject::$variant(object) => object.into(),)+ }
            }

            fn is_namespaced(&self) -> bool {
                match self { $(AnyObject::$variant(_) => $namespaced,)+ }
            }

            $(fn $as(&self) -> Option<&$message> {
                match self {
                    AnyObject::$variant(object) => Some(object),
                    _ => None,
                }
            })+
        }

        $(impl From<$message> for AnyObject {
            fn from(object: $message) -> AnyObject {
                AnyObject::$variant(object)
            }
        })+

        /// Shown as one line of JSON, so that a failing case can be read.
        impl fmt::Debug for AnyObject {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let json = match self { $(AnyObject::$variant(object) => serde_json::to_string(object),)+ };
                write!(f, "{} {}", self.kind(), json.expect("objects have a JSON form"))
            }
        }
    };
}

kinds! {
    Namespace(core_v1::Namespace): "Namespace", false, as_namespace;
    Service(core_v1::Service): "Service", true, as_service;
    ReplicationController(core_v1::ReplicationController): "ReplicationController", true, as_replication_controller;
    ReplicaSet(apps_v1::ReplicaSet): "ReplicaSet", true, as_replica_set;
    StatefulSet(apps_v1::StatefulSet): "StatefulSet", true, as_stateful_set;
    PersistentVolume(core_v1::PersistentVolume): "PersistentVolume", false, as_volume;
    PersistentVolumeClaim(core_v1::PersistentVolumeClaim): "PersistentVolumeClaim", true, as_claim;
    StorageClass(storage_v1::StorageClass): "StorageClass", false, as_class;
    CsiNode(storage_v1::CsiNode): "CSINode", false, as_csi_node;
    CsiDriver(storage_v1::CsiDriver): "CSIDriver", false, as_csi_driver;
    CsiStorageCapacity(storage_v1::CsiStorageCapacity): "CSIStorageCapacity", true, as_capacity;
    VolumeAttachment(storage_v1::VolumeAttachment): "VolumeAttachment", false, as_attachment;
    PodDisruptionBudget(policy_v1::PodDisruptionBudget): "PodDisruptionBudget", true, as_budget;
}

impl AnyObject {
    pub(crate) fn key(&self) -> Key {
        let metadata = self.metadata();
        let namespace =
            if self.is_namespaced() { namespace(metadata).to_owned() } else { String::new() };
        (self.kind(), namespace, metadata.name.clone())
    }
}

/// Returns the namespace of a namespaced object.
pub(crate) fn namespace(metadata: &meta_v1::ObjectMeta) -> &str {
    if metadata.namespace.is_empty() { "default" } else { &metadata.namespace }
}

/// Objects in order of kind, namespace and name.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    all: BTreeMap<Key, AnyObject>,
}

impl Objects {
    pub(crate) fn upsert(&mut self, object: AnyObject) {
        self.all.insert(object.key(), object);
    }

    pub(crate) fn delete(&mut self, key: &Key) {
        self.all.remove(key);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AnyObject> {
        self.all.values()
    }

    fn get(&self, kind: &'static str, namespace: &str, name: &str) -> Option<&AnyObject> {
        self.all.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &core_v1::Namespace> {
        self.iter().filter_map(AnyObject::as_namespace)
    }

    /// Returns the labels of a namespace, or none if it has no object (S-IPA-3).
    pub(crate) fn namespace_labels(&self, name: &str) -> BTreeMap<String, String> {
        let object = self.get("Namespace", "", name).map(AnyObject::metadata);
        object.map(|metadata| metadata.labels.clone()).unwrap_or_default()
    }

    /// The services of a namespace.
    pub(crate) fn services(&self, of: &str) -> impl Iterator<Item = &core_v1::Service> {
        let here = self.iter().filter(move |object| namespace(object.metadata()) == of);
        here.filter_map(AnyObject::as_service)
    }

    pub(crate) fn replication_controller(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<&core_v1::ReplicationController> {
        self.get("ReplicationController", namespace, name)?.as_replication_controller()
    }

    pub(crate) fn replica_set(&self, namespace: &str, name: &str) -> Option<&apps_v1::ReplicaSet> {
        self.get("ReplicaSet", namespace, name)?.as_replica_set()
    }

    pub(crate) fn stateful_set(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<&apps_v1::StatefulSet> {
        self.get("StatefulSet", namespace, name)?.as_stateful_set()
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&core_v1::PersistentVolume> {
        self.get("PersistentVolume", "", name)?.as_volume()
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &core_v1::PersistentVolume> {
        self.iter().filter_map(AnyObject::as_volume)
    }

    pub(crate) fn claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<&core_v1::PersistentVolumeClaim> {
        self.get("PersistentVolumeClaim", namespace, name)?.as_claim()
    }

    pub(crate) fn class(&self, name: &str) -> Option<&storage_v1::StorageClass> {
        self.get("StorageClass", "", name)?.as_class()
    }

    pub(crate) fn csi_node(&self, name: &str) -> Option<&storage_v1::CsiNode> {
        self.get("CSINode", "", name)?.as_csi_node()
    }

    pub(crate) fn csi_driver(&self, name: &str) -> Option<&storage_v1::CsiDriver> {
        self.get("CSIDriver", "", name)?.as_csi_driver()
    }

    pub(crate) fn capacities(&self) -> impl Iterator<Item = &storage_v1::CsiStorageCapacity> {
        self.iter().filter_map(AnyObject::as_capacity)
    }

    pub(crate) fn attachments(&self) -> impl Iterator<Item = &storage_v1::VolumeAttachment> {
        self.iter().filter_map(AnyObject::as_attachment)
    }

    pub(crate) fn budgets(&self) -> impl Iterator<Item = &policy_v1::PodDisruptionBudget> {
        self.iter().filter_map(AnyObject::as_budget)
    }
}
