//! Keys: the kinds of objects, and the identifiers of objects, pods, claims and volumes.

use std::fmt;
use std::sync::Arc;

use berth_proto::meta_v1;
use prost::Message as _;

use super::intern::Symbol;
use super::kinds::object_kinds;

macro_rules! kinds {
    ($($kind:ident($message:ty) {
        upsert: $upsert:ident, wakes: $wakes:ident, recorded: $recorded:ident,
        name: $name:literal, api_version: $version:literal, plural: $plural:literal, namespaced: $namespaced:literal
    })+) => {
        /// A kind of object that placement reads besides nodes and pods.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum ObjectKind {
            $(#[doc = concat!("`", $name, "` of `", $version, "`")] $kind,)+
        }

        impl ObjectKind {
            /// All kinds.
            pub const ALL: [ObjectKind; [$(ObjectKind::$kind),+].len()] = [$(ObjectKind::$kind),+];

            /// Kubernetes' name of the kind, for example `CSINode`.
            pub fn name(self) -> &'static str {
                match self { $(ObjectKind::$kind => $name,)+ }
            }

            /// The kind with this exact name.
            pub fn from_name(name: &str) -> Option<ObjectKind> {
                match name { $($name => Some(ObjectKind::$kind),)+ _ => None }
            }

            /// The `apiVersion` of objects of this kind.
            pub fn api_version(self) -> &'static str {
                match self { $(ObjectKind::$kind => $version,)+ }
            }

            /// The name in paths and RBAC rules, for example `csinodes`.
            pub fn plural(self) -> &'static str {
                match self { $(ObjectKind::$kind => $plural,)+ }
            }

            /// Whether objects of this kind have a namespace.
            pub fn is_namespaced(self) -> bool {
                match self { $(ObjectKind::$kind => $namespaced,)+ }
            }
        }

        /// An object other than a node or a pod, as received over the wire.
        #[derive(Copy, Clone, Debug)]
        pub enum WireObject<'a> {
            $(#[doc = concat!("A `", $name, "`.")] $kind(&'a $message),)+
        }

        $(impl<'a> From<&'a $message> for WireObject<'a> {
            fn from(object: &'a $message) -> WireObject<'a> {
                WireObject::$kind(object)
            }
        })+

        impl WireObject<'_> {
            /// The kind of the object.
            pub fn kind(self) -> ObjectKind {
                match self { $(WireObject::$kind(_) => ObjectKind::$kind,)+ }
            }

            /// The object's encoding.
            pub(crate) fn encode_to_vec(self) -> Vec<u8> {
                match self { $(WireObject::$kind(object) => object.encode_to_vec(),)+ }
            }

            /// The object's metadata, if any.
            pub fn metadata(&self) -> Option<&meta_v1::ObjectMeta> {
                match self { $(WireObject::$kind(object) => object.metadata.as_ref(),)+ }
            }
        }
    };
}

object_kinds!(kinds);

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

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A volume as a driver counts it (S-VLL-3).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct VolumeId {
    pub(crate) driver: Symbol,
    handle: VolumeHandle,
}

/// Identifies a volume among those of its driver.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
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
