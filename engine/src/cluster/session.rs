//! Session: a fork that is a cluster of its own. Its decisions and suppositions are recorded in `record`.

use std::sync::Arc;

use super::{Cluster, publish::Published};
use crate::place::memo::Memo;
use crate::snapshot::Snapshot;

impl Cluster {
    /// Opens a session: a private copy of the cluster as it is now, on which every call works as on the cluster itself,
    /// invisible to others.
    ///
    /// Its placements and nominations can be applied with [`Cluster::commit`]. Deltas applied to the session are
    /// suppositions, never applied to the cluster. Cost: some tens of pointers, however large the cluster is, and a
    /// wait for a concurrent change of the cluster; each of the two then copies what it changes at its first change.
    pub fn fork(&self) -> Cluster {
        let (base, fork) = {
            let writer = self.writer();
            (self.snapshot(), writer.fork())
        };
        Cluster {
            model: self.model.clone(),
            kernels: self.kernels,
            versions: self.versions.clone(),
            published: Published::new(fork.draft.snapshot.clone()),
            writer: fork.into(),
            memo: Memo::default(),
            searches: Memo::default(),
            samples: Memo::default(),
            order: Arc::default(),
            recent: self.recent.clone(),
            base: Some(base),
            observer: None,
        }
    }

    /// The snapshot that this was forked from, if it is a fork of that cluster.
    pub(super) fn is_fork_of(&self, origin: &Cluster) -> Option<&Arc<Snapshot>> {
        let is_same_house = Arc::ptr_eq(&self.versions, &origin.versions);
        let lineage = origin.snapshot().lineage;
        self.base.as_ref().filter(|base| is_same_house && base.lineage == lineage)
    }
}
