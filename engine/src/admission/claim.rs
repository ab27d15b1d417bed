//! Claims: the default storage class, and bounds of the storage that a claim requests. Rules: A-SC-1, A-LIM-6.

use std::cmp::Reverse;

use berth_proto::core_v1::PersistentVolumeClaim;

use super::filling::Filling;
use super::limit_bounds;
use super::outcome::{AdmissionError, Admitted};
use crate::model::ObjectKind;
use crate::model::object::ObjectFacts;
use crate::snapshot::Snapshot;

/// The annotation that names a claim's class in its old form.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Makes a claim what kube-apiserver would store, as far as placement reads it.
///
/// # Errors
/// [`AdmissionError`] if the claim requests less or more storage than a limit range of its namespace allows.
pub fn admit_claim(
    claim: &mut PersistentVolumeClaim,
    snapshot: &Snapshot,
) -> Result<Admitted, AdmissionError> {
    let mut filling = Filling::default();
    let metadata = claim.metadata.get_or_insert_default();
    if !metadata.resource_version.is_empty() {
        return Ok(filling.finish());
    }
    filling.text(&mut metadata.namespace, "default", "metadata", "namespace");
    let namespace = metadata.namespace.clone();
    let has_class = metadata.annotations.contains_key(CLASS);
    let spec = claim.spec.get_or_insert_default();
    filling.optional(&mut spec.volume_mode, "Filesystem".to_owned(), "spec", "volumeMode");
    if spec.storage_class_name.is_none()
        && !has_class
        && let Some(class) = default_class(snapshot)
    {
        filling.note("spec.storageClassName", &*class, format!("StorageClass {class}"));
        spec.storage_class_name = Some(class);
    }
    limit_bounds::check_claim(claim, &namespace, snapshot)?;
    Ok(filling.finish())
}

/// The default class: of several the newest, then the first by name.
fn default_class(snapshot: &Snapshot) -> Option<String> {
    let objects = snapshot.objects.of_kind(ObjectKind::StorageClass, "");
    let defaults = objects.filter_map(|object| match object.facts() {
        ObjectFacts::StorageClass(class) => {
            class.default_since.map(|since| (Reverse(since), object.key().name.clone()))
        }
        _ => None,
    });
    defaults.min().map(|(_, name)| name.to_string())
}
