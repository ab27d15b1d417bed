//! Keys: the kinds of objects, and the identifiers of objects, pods, claims and volumes.

use std::fmt;
use std::sync::Arc;

use berth_proto::{apps_v1, core_v1, meta_v1, policy_v1, storage_v1};

use super::intern::Symbol;

macro_rules! kinds {
    ($($variant:ident($message:ty): $name:literal, $version:literal, $namespaced:literal;)+) => {
        /// A kind of object that placement reads besides nodes and pods.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum ObjectKind {
            $(#[doc = concat!("`", $name, "` of `", $version, "`")] $variant,)+
        }

        impl ObjectKind {
            /// All kinds.
            pub const ALL: [ObjectKind; 13] = [$(ObjectKind::$variant),+];

            /// Kubernetes' name of the kind, for example `CSINode`.
            pub fn name(self) -> &'static str {
                match self { $(ObjectKind::$variant => $name,)+ }
            }

            /// The kind with this exact name.
            pub fn from_name(name: &str) -> Option<ObjectKind> {
                match name { $($name => Some(ObjectKind::$variant),)+ _ => None }
            }

            /// The `apiVersion` of objects of this kind.
            pub fn api_version(self) -> &'static str {
                match self { $(ObjectKind::$variant => $version,)+ }
            }

            /// Whether objects of this kind have a namespace.
            pub fn is_namespaced(self) -> bool {
                match self { $(ObjectKind::$variant => $namespaced,)+ }
            }
        }

        /// An object other than a node or a pod, as received over the wire.
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
            /// The kind of the object.
            pub fn kind(self) -> ObjectKind {
                match self { $(WireObject::$variant(_) => ObjectKind::$variant,)+ }
            }

            /// The object's metadata, if any.
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

/// Kind, namespace and name of an object.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's namespace; empty for kinds without namespaces.
    pub namespace: Arc<str>,
    /// The object's name.
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

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `namespace/name` of a pod.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PodKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name within it.
    pub name: Arc<str>,
}

impl PodKey {
    /// The key of a pod.
    pub fn new(namespace: &str, name: &str) -> PodKey {
        PodKey { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Namespace and name of a claim.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ClaimKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// A volume as a driver counts it (S-VLL-3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct VolumeId {
    pub(crate) driver: Symbol,
    handle: VolumeHandle,
}

/// Identifies a volume among those of its driver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum VolumeHandle {
    Volume(Arc<str>),
    /// The future volume of a claim.
    Claim(ClaimKey),
}

impl VolumeId {
    /// A volume that exists.
    pub(crate) fn of_handle(driver: Symbol, handle: Arc<str>) -> VolumeId {
        VolumeId { driver, handle: VolumeHandle::Volume(handle) }
    }

    /// The future volume of a claim.
    pub(crate) fn of_claim(driver: Symbol, claim: ClaimKey) -> VolumeId {
        VolumeId { driver, handle: VolumeHandle::Claim(claim) }
    }

    /// This volume with another driver's name.
    pub(crate) fn under(&self, driver: Symbol) -> VolumeId {
        VolumeId { driver, handle: self.handle.clone() }
    }
}
