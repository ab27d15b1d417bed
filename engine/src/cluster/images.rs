//! Images: which nodes have which image, and which nodes' entries have to be refreshed. Rules: S-IL-4 (size), S-IL-5 (a
//! node's count is that of its last refresh), S-SNP-4.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::Node;
use crate::model::intern::Symbol;
use crate::rows::NodeRow;
use crate::snapshot::node_table::ImageState;

/// State of every image that a node reports, by normalized name.
pub(crate) type ImageStates = FxHashMap<Symbol, ImageState>;

/// Changed rows, and the image state at which each row was last refreshed. A copy between generations costs a pointer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImageRefresh {
    /// Counts changes of the image states.
    version: u64,
    /// By row: the version at the last refresh; 0 for rows whose entry is new or removed.
    refreshed: Arc<Vec<u64>>,
    /// Rows that changed since the last refresh.
    dirty: Vec<NodeRow>,
}

impl ImageRefresh {
    /// Adds a node: the size of an image is that of its first reporter.
    pub(crate) fn add_node(&mut self, node: &Node, states: &mut ImageStates) {
        for (name, size_bytes) in &node.facts().images {
            let state =
                states.entry(*name).or_insert(ImageState { size_bytes: *size_bytes, n_nodes: 0 });
            state.n_nodes += 1;
            self.version += 1;
        }
    }

    /// Removes a node.
    pub(crate) fn remove_node(&mut self, node: &Node, states: &mut ImageStates) {
        for (name, _) in &node.facts().images {
            if let Some(state) = states.get_mut(name) {
                state.n_nodes -= 1;
                if state.n_nodes == 0 {
                    states.remove(name);
                }
                self.version += 1;
            }
        }
    }

    /// Marks a changed row, whose entry is refreshed with the next snapshot.
    pub(crate) fn touch(&mut self, row: NodeRow, node: &Node) {
        if !node.facts().images.is_empty() {
            self.dirty.push(row);
        }
    }

    /// Resets a row whose entry is new or removed.
    pub(crate) fn forget(&mut self, row: NodeRow) {
        if row.index() < self.refreshed.len() {
            Arc::make_mut(&mut self.refreshed)[row.index()] = 0;
        }
    }

    /// The rows to refresh now, without duplicates, limited to those whose entry could differ.
    pub(crate) fn take_stale(&mut self) -> Vec<NodeRow> {
        let mut rows = std::mem::take(&mut self.dirty);
        let Some(last) = rows.iter().max() else { return rows };
        let refreshed = Arc::make_mut(&mut self.refreshed);
        if refreshed.len() <= last.index() {
            refreshed.resize(last.index() + 1, 0);
        }
        rows.sort_unstable();
        rows.retain(|row| {
            std::mem::replace(&mut refreshed[row.index()], self.version) != self.version
        });
        rows
    }
}
