//! Fields that volumes and claims share: their class and their amount of storage.

use std::collections::BTreeMap;

use berth_proto::{Amount, Quantity, meta_v1};

use crate::model::ModelError;
use crate::model::intern::{Interner, Symbol};
use crate::model::requests::parse_amount;

/// The class of a volume or a claim: the legacy annotation takes precedence over the field (S-VLB-2).
pub(super) fn class_of(metadata: &meta_v1::ObjectMeta, field: &str, names: &Interner) -> Symbol {
    let annotation = metadata.annotations.get("volume.beta.kubernetes.io/storage-class");
    names.intern(annotation.map_or(field, String::as_str))
}

/// The amount of storage in a list of resources at `field`.
pub(super) fn storage_of(
    list: &BTreeMap<String, Quantity>,
    field: &str,
) -> Result<Option<Amount>, ModelError> {
    list.get(STORAGE).map(|quantity| parse_amount(quantity, STORAGE, field)).transpose()
}

const STORAGE: &str = "storage";
