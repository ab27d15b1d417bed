//! AttachmentIndex: VolumeAttachments by name, by volume and by node (S-VLL-5).

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::model::intern::Symbol;
use crate::model::storage::volume_attachment::VolumeAttachment;

/// Attachments. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachmentIndex {
    by_name: OrdMap<Arc<str>, Arc<VolumeAttachment>>,
    by_volume: OrdSet<(Arc<str>, Arc<str>)>,
    by_node: OrdSet<(Symbol, Arc<str>)>,
}

impl AttachmentIndex {
    pub(crate) fn get(&self, name: &str) -> Option<&VolumeAttachment> {
        self.by_name.get(name).map(|attachment| &**attachment)
    }

    /// The names of attachments of a volume.
    pub(crate) fn of_volume(&self, volume: &Arc<str>) -> Vec<Arc<str>> {
        let names = self.by_volume.range((volume.clone(), Arc::from(""))..);
        names.take_while(|(of, _)| of == volume).map(|(_, name)| name.clone()).collect()
    }

    /// The names of attachments to a node.
    pub(crate) fn of_node(&self, node: Symbol) -> Vec<Arc<str>> {
        let names = self.by_node.range((node, Arc::from(""))..);
        names.take_while(|(of, _)| *of == node).map(|(_, name)| name.clone()).collect()
    }

    /// Adds, replaces or removes the attachment of a name.
    pub(crate) fn replace(&mut self, name: &Arc<str>, new: Option<&Arc<VolumeAttachment>>) {
        if let Some(old) = self.by_name.remove(name) {
            self.by_node.remove(&(old.node, name.clone()));
            if let Some((_, volume)) = &old.attached {
                self.by_volume.remove(&(volume.clone(), name.clone()));
            }
        }
        let Some(attachment) = new else { return };
        self.by_node.insert((attachment.node, name.clone()));
        if let Some((_, volume)) = &attachment.attached {
            self.by_volume.insert((volume.clone(), name.clone()));
        }
        self.by_name.insert(name.clone(), attachment.clone());
    }
}
