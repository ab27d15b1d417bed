//! PodTable: the pods of each node of a shard, in blocks so that a change copies little.

use std::sync::Arc;

use super::ROWS;
use crate::model::Pod;
use crate::model::population::PopulationId;

const BLOCK: usize = 16;

/// A pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPod {
    pub(crate) pod: Pod,
    /// The pod's, here so that counting pods of some populations reads nothing else.
    pub(crate) population: PopulationId,
    /// Placed by Berth and not yet confirmed by a feed (S-CCH-1).
    pub(crate) is_assumed: bool,
}

impl PlacedPod {
    pub(crate) fn new(pod: Pod, is_assumed: bool) -> PlacedPod {
        PlacedPod { population: pod.population().id, pod, is_assumed }
    }
}

/// Pods by row, in the order in which they came (S-CCH-6).
#[derive(Clone, Debug)]
pub(crate) struct PodTable([Arc<Block>; ROWS / BLOCK]);

#[derive(Clone, Debug, Default)]
struct Block([Arc<Vec<PlacedPod>>; BLOCK]);

impl Default for PodTable {
    fn default() -> PodTable {
        let block = Arc::new(Block::default());
        PodTable(std::array::from_fn(|_| block.clone()))
    }
}

impl PodTable {
    pub(crate) fn of(&self, row: usize) -> &[PlacedPod] {
        &self.0[row / BLOCK].0[row % BLOCK]
    }

    /// The list of a row, to be changed.
    pub(crate) fn of_mut(&mut self, row: usize) -> &mut Vec<PlacedPod> {
        let block = Arc::make_mut(&mut self.0[row / BLOCK]);
        Arc::make_mut(&mut block.0[row % BLOCK])
    }
}
