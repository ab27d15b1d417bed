//! Storage objects: volumes, claims, classes, and reports of nodes and drivers. One file for each kind.

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

/// Facts of a storage object that the rules read.
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
