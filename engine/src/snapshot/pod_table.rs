//! PodTable: the pods of each node of a shard, in blocks so that a change copies little.

use std::sync::Arc;

use super::by_importance::ByImportance;
use super::placed_pod::PlacedPod;
use super::row_pods::RowPods;
use crate::model::PodKey;
use crate::rows::{ROWS, RowSet};

const BLOCK: usize = 4;

/// Pods by row.
#[derive(Clone, Debug)]
pub(crate) struct PodTable([Arc<Block>; ROWS / BLOCK]);

#[derive(Clone, Debug, Default)]
struct Block([RowPods; BLOCK]);

impl Default for PodTable {
    fn default() -> PodTable {
        let block = Arc::new(Block::default());
        PodTable(std::array::from_fn(|_| block.clone()))
    }
}

impl PodTable {
    /// The pods of a row, in order of arrival; a removed pod's position was taken by the last one.
    pub(crate) fn of(&self, row: usize) -> &[PlacedPod] {
        self.row(row).pods()
    }

    /// The pods of a row by importance, if that was wanted before.
    pub(crate) fn by_importance(&self, row: usize) -> Option<&ByImportance> {
        self.row(row).by_importance()
    }

    /// Number of pods of a row.
    pub(crate) fn count(&self, row: usize) -> usize {
        self.row(row).len()
    }

    /// The pod of this name on a row.
    pub(crate) fn find(&self, row: usize, key: &PodKey) -> Option<&PlacedPod> {
        self.row(row).find(key)
    }

    /// Adds a pod to a row.
    pub(crate) fn push(&mut self, row: usize, pod: PlacedPod) {
        self.row_mut(row).push(pod);
    }

    /// Removes the pod of this name from a row: the last one takes its position.
    pub(crate) fn remove(&mut self, row: usize, key: &PodKey) -> Option<PlacedPod> {
        self.row_mut(row).remove(key)
    }

    /// Replaces the pod of this name on a row by what is made of it, in its position; returns whether it is there.
    pub(crate) fn replace(
        &mut self,
        row: usize,
        key: &PodKey,
        with: impl FnOnce(&PlacedPod) -> PlacedPod,
    ) -> bool {
        self.row_mut(row).replace(key, with)
    }

    /// Takes the lists of some rows of a newer table, which differ from this one's.
    pub(crate) fn follow(&mut self, newer: &PodTable, rows: &RowSet) {
        for row in rows.iter() {
            let (block, newer_block) = (&mut self.0[row / BLOCK], &newer.0[row / BLOCK]);
            match Arc::get_mut(block) {
                Some(block) => block.0[row % BLOCK].clone_from(newer.row(row)),
                None => *block = newer_block.clone(),
            }
        }
    }

    /// Whether each row has the same list, not only an equal one. For assertions.
    pub(crate) fn lists_the_same_as(&self, other: &PodTable) -> bool {
        (0..ROWS).all(|row| self.row(row).is_same_as(other.row(row)))
    }

    /// The list of a row, for changing it.
    pub(crate) fn of_mut(&mut self, row: usize) -> &mut Vec<PlacedPod> {
        self.row_mut(row).pods_mut()
    }

    fn row(&self, row: usize) -> &RowPods {
        &self.0[row / BLOCK].0[row % BLOCK]
    }

    fn row_mut(&mut self, row: usize) -> &mut RowPods {
        &mut Arc::make_mut(&mut self.0[row / BLOCK]).0[row % BLOCK]
    }
}
