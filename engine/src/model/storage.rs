//! Storage objects: volumes, claims, classes, and what nodes and drivers say of them. A file a kind.

mod anchor;
pub(crate) mod csi_driver;
pub(crate) mod csi_node;
pub(crate) mod csi_storage_capacity;
pub(crate) mod in_tree;
pub(crate) mod mode;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod storage_class;
pub(crate) mod volume_attachment;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Amount, Quantity, meta_v1};

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::requests::parse_amount;
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

/// The class of a volume or a claim: the annotation of old counts before the field (S-VLB-2).
fn class_of(metadata: &meta_v1::ObjectMeta, field: &str, names: &Interner) -> Symbol {
    let annotation = metadata.annotations.get("volume.beta.kubernetes.io/storage-class");
    names.intern(annotation.map_or(field, String::as_str))
}

/// The amount of storage in a list of resources at `field`.
fn storage_of(
    list: &BTreeMap<String, Quantity>,
    field: &str,
) -> Result<Option<Amount>, ModelError> {
    list.get(STORAGE).map(|quantity| parse_amount(quantity, STORAGE, field)).transpose()
}

const STORAGE: &str = "storage";
