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
