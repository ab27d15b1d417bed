//! VolumeAttachment: a volume that counts on a node before or after a pod uses it (S-VLL-5).

use std::sync::Arc;

use berth_proto::{meta_v1, storage_v1};

use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// One attachment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeAttachment {
    pub(crate) name: Arc<str>,
    pub(crate) node: Symbol,
    /// The attaching driver and the persistent volume; `None` where either is absent.
    pub(crate) attached: Option<(Symbol, Arc<str>)>,
}

impl Compile for storage_v1::VolumeAttachment {
    type Facts = VolumeAttachment;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<VolumeAttachment, ModelError> {
        let names = model.names();
        VolumeAttachment::compile(self, key, names)
    }
}

impl VolumeAttachment {
    pub(crate) fn compile(
        attachment: &storage_v1::VolumeAttachment,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<VolumeAttachment, ModelError> {
        let Some(spec) = &attachment.spec else {
            return Err(ModelError::new("spec", "is missing"));
        };
        let volume = spec.source.as_ref().and_then(|source| source.persistent_volume_name.as_ref());
        let attached = volume
            .filter(|_| !spec.attacher.is_empty())
            .map(|volume| (names.intern(&spec.attacher), Arc::from(volume.as_str())));
        Ok(VolumeAttachment {
            name: key.name.clone(),
            node: names.intern(&spec.node_name),
            attached,
        })
    }
}
