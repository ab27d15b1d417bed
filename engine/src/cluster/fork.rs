//! Fork: a snapshot that one caller may change without anyone seeing it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::draft::Draft;
use crate::model::Pod;
use crate::place::Chosen;
use crate::snapshot::Snapshot;

/// A private copy of a snapshot; costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Fork(Draft);

impl Fork {
    pub(crate) fn of(snapshot: &Snapshot, versions: Arc<AtomicU64>) -> Fork {
        Fork(Draft::new(snapshot.clone(), versions))
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }

    /// Puts a pod where it was decided to go, if anywhere, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, chosen: Option<Chosen>) {
        let Some(Chosen { row, .. }) = chosen else {
            return;
        };
        let Some(node) = self.0.snapshot.node(row) else {
            return;
        };
        let (pod, has_images) =
            (pod.on_node(node.facts().name.clone()), !node.facts().images.is_empty());
        self.0.add_pod(row, pod, true);
        if has_images {
            self.0.refresh_images(row);
        }
    }
}
