//! What Kubernetes' metadata says beyond its fields.

use crate::meta_v1::{ObjectMeta, OwnerReference};

impl ObjectMeta {
    /// The owner that manages the object: the first with `controller: true`. Kubernetes admits one at most.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }
}
