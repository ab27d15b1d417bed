//! Objects other than nodes and pods, as written in a file.

use berth_engine::{ObjectKind, WireObject};
use berth_proto::{apps_v1, core_v1, policy_v1, storage_v1};

macro_rules! written {
    ($($kind:ident($message:ty)),+ $(,)?) => {
        /// An object of a kind that placements depend on besides nodes and pods, as it was written; compiled and judged
        /// later.
        #[derive(Clone, Debug, PartialEq)]
        pub enum WrittenObject {
            $(#[doc = concat!("`", stringify!($kind), "`")] $kind(Box<$message>),)+
        }

        impl WrittenObject {
            /// Reads the JSON of one object of `kind`.
            pub(crate) fn parse(kind: ObjectKind, json: &str) -> serde_json::Result<WrittenObject> {
                Ok(match kind {
                    $(ObjectKind::$kind => WrittenObject::$kind(serde_json::from_str(json)?),)+
                })
            }

            /// The object as the engine compiles it.
            pub fn as_wire(&self) -> WireObject<'_> {
                match self { $(WrittenObject::$kind(object) => WireObject::$kind(object),)+ }
            }
        }
    };
}

written! {
    Namespace(core_v1::Namespace),
    Service(core_v1::Service),
    ReplicationController(core_v1::ReplicationController),
    ReplicaSet(apps_v1::ReplicaSet),
    StatefulSet(apps_v1::StatefulSet),
    PersistentVolume(core_v1::PersistentVolume),
    PersistentVolumeClaim(core_v1::PersistentVolumeClaim),
    StorageClass(storage_v1::StorageClass),
    CsiNode(storage_v1::CsiNode),
    CsiDriver(storage_v1::CsiDriver),
    CsiStorageCapacity(storage_v1::CsiStorageCapacity),
    VolumeAttachment(storage_v1::VolumeAttachment),
    PodDisruptionBudget(policy_v1::PodDisruptionBudget),
}
