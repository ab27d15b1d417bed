//! Storage objects: volumes, claims, classes, and what nodes and drivers say of them. A file a kind.

mod anchor;
pub(crate) mod csi_driver;
pub(crate) mod csi_node;
pub(crate) mod csi_storage_capacity;
mod field;
pub(crate) mod in_tree;
pub(crate) mod mode;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod storage_class;
pub(crate) mod volume_attachment;

use std::sync::Arc;

use csi_driver::CsiDriver;
use csi_node::CsiNode;
use csi_storage_capacity::CsiStorageCapacity;
use persistent_volume::PersistentVolume;
use persistent_volume_claim::PersistentVolumeClaim;
use storage_class::StorageClass;
use volume_attachment::VolumeAttachment;

/// What the rules read of a storage object.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum StorageObject {
    PersistentVolume(Arc<PersistentVolume>),
    PersistentVolumeClaim(Arc<PersistentVolumeClaim>),
    StorageClass(Arc<StorageClass>),
    CsiNode(Arc<CsiNode>),
    CsiDriver(CsiDriver),
    CsiStorageCapacity(Arc<CsiStorageCapacity>),
    VolumeAttachment(Arc<VolumeAttachment>),
}
