//! Publish: the pointer that readers load. One writer stores, any number of readers load without waiting.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::snapshot::Snapshot;

/// The newest published snapshot.
#[derive(Debug)]
pub(crate) struct Published(ArcSwap<Snapshot>);

impl Published {
    pub(crate) fn new(snapshot: Snapshot) -> Published {
        Published(ArcSwap::from_pointee(snapshot))
    }

    /// Loads the newest snapshot, lock-free; a loaded snapshot never changes.
    pub(crate) fn load(&self) -> Arc<Snapshot> {
        let snapshot = self.0.load_full();
        debug_assert!(snapshot.counts_its_nodes(), "what was published is what is read");
        snapshot
    }

    /// Publishes a snapshot. Only the holder of the writer's lock calls this, so generations only grow.
    pub(crate) fn store(&self, snapshot: Snapshot) {
        debug_assert!(snapshot.generation > self.0.load().generation, "generations only grow");
        debug_assert!(snapshot.counts_its_nodes(), "every node is counted once");
        debug_assert!(
            snapshot.counts_its_pods(),
            "every pod is counted once, on its row and in all"
        );
        self.0.store(Arc::new(snapshot));
    }
}
