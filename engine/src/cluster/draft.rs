//! Draft: a snapshot being written. Shards that a published snapshot shares are copied when first changed, so a fork
//! costs a few pointers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::intern::Symbol;
use crate::model::{Node, Pod};
use crate::snapshot::node_table::ImageState;
use crate::snapshot::pod_table::PlacedPod;
use crate::snapshot::shard::Shard;
use crate::snapshot::{NodeRow, ROWS, Snapshot};

/// The state that deltas and placements change, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) snapshot: Snapshot,
    free: BTreeSet<NodeRow>,
    /// Shared with every fork, so that equal shard versions mean equal content everywhere.
    versions: Arc<AtomicU64>,
}

impl Draft {
    pub(crate) fn new(snapshot: Snapshot, versions: Arc<AtomicU64>) -> Draft {
        Draft { snapshot, free: BTreeSet::new(), versions }
    }

    /// Puts a node into the lowest free row.
    pub(crate) fn insert_node(&mut self, node: Node) -> NodeRow {
        let row = self.free.pop_first().unwrap_or_else(|| self.grow());
        let version = self.next_version();
        self.shard_mut(row).insert_node(row.row(), node, version);
        row
    }

    /// Replaces the node object of a row.
    pub(crate) fn replace_node(&mut self, row: NodeRow, node: Node) {
        let version = self.next_version();
        self.shard_mut(row).replace_node(row.row(), node, version);
    }

    /// Frees a row; answers its pods.
    pub(crate) fn remove_node(&mut self, row: NodeRow) -> Vec<PlacedPod> {
        let version = self.next_version();
        let pods = self.shard_mut(row).remove_node(row.row(), version);
        self.free.insert(row);
        pods
    }

    pub(crate) fn add_pod(&mut self, row: NodeRow, pod: Pod, is_assumed: bool) {
        let version = self.next_version();
        self.shard_mut(row).add_pod(row.row(), pod, is_assumed, version);
    }

    pub(crate) fn remove_pod(&mut self, row: NodeRow, pod: &Pod) {
        let version = self.next_version();
        self.shard_mut(row).remove_pod(row.row(), pod, version);
    }

    /// Copies the newest image counts into a row's entry (S-IL-5).
    pub(crate) fn refresh_images(&mut self, row: NodeRow) {
        let Some(node) = self.snapshot.node(row).cloned() else {
            return;
        };
        let images = self.snapshot.images.clone();
        let states: Vec<(Symbol, ImageState)> = node
            .facts()
            .images
            .iter()
            .filter_map(|(name, _)| Some((*name, *images.get(name)?)))
            .collect();
        let version = self.next_version();
        let shard = self.shard_mut(row);
        Arc::make_mut(&mut shard.nodes).set_images(row.row(), &states);
        shard.touch(row.row(), version);
    }

    fn shard_mut(&mut self, row: NodeRow) -> &mut Shard {
        Arc::make_mut(&mut self.snapshot.shards[row.shard()])
    }

    fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends a shard; answers its first row, the others become free.
    fn grow(&mut self) -> NodeRow {
        let shard = self.snapshot.shards.len();
        self.snapshot
            .shards
            .push(Arc::new(Shard { version: self.next_version(), ..Shard::default() }));
        self.free.extend((1..ROWS).map(|row| NodeRow::new(shard, row)));
        NodeRow::new(shard, 0)
    }
}
