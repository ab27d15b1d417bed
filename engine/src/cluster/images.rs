//! Images: which nodes have which image, and whose entries are due to be refreshed.
//! Rules: S-IL-4 (size), S-IL-5 (a node's count is that of its last refresh), S-SNP-4.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::Node;
use crate::model::intern::Symbol;
use crate::rows::NodeRow;
use crate::snapshot::node_table::ImageState;

/// Every image that some node reports, by its normalised name.
pub(crate) type ImageStates = FxHashMap<Symbol, ImageState>;

/// Which rows changed, and at which state of all images each was last refreshed. A copy between generations costs a
/// pointer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImageRefresh {
    /// Counts changes of the image states.
    version: u64,
    /// By row: the version at the last refresh; 0 for rows whose entry is new or gone.
    refreshed: Arc<Vec<u64>>,
    /// Rows that changed since the last refresh.
    dirty: Vec<NodeRow>,
}

impl ImageRefresh {
    /// A node joined: of each image the first reporter's size holds.
    pub(crate) fn add_node(&mut self, node: &Node, states: &mut ImageStates) {
        for (name, size_bytes) in &node.facts().images {
            let state =
                states.entry(*name).or_insert(ImageState { size_bytes: *size_bytes, n_nodes: 0 });
            state.n_nodes += 1;
            self.version += 1;
        }
    }

    /// A node left.
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

    /// A row changed, so its entry is refreshed with the next snapshot.
    pub(crate) fn touch(&mut self, row: NodeRow, node: &Node) {
        if !node.facts().images.is_empty() {
            self.dirty.push(row);
        }
    }

    /// A row's entry is new or gone.
    pub(crate) fn forget(&mut self, row: NodeRow) {
        if row.index() < self.refreshed.len() {
            Arc::make_mut(&mut self.refreshed)[row.index()] = 0;
        }
    }

    /// The rows to refresh now, each once, and those only whose entry could differ.
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
