//! At: the node that is compared for, and what the comparisons of all plugins share.

use super::comparison::{Compared, N_LISTED};
use crate::model::{Pod, PodKey};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// A node to compare for.
#[derive(Copy, Clone)]
pub(super) struct At<'p> {
    pub(super) shard: &'p Shard,
    pub(super) row: usize,
}

impl At<'_> {
    pub(super) fn rows(self) -> RowSet {
        [self.row].into_iter().collect()
    }

    pub(super) fn node_row(self) -> NodeRow {
        NodeRow::new(self.shard.index, self.row)
    }
}

/// What was compared, and whether the node has it.
pub(super) type Judged = (bool, Compared);

/// The first few of these pods by name.
pub(super) fn first_by_name<'k>(pods: impl Iterator<Item = &'k PodKey>) -> Vec<PodKey> {
    let mut first: Vec<&PodKey> = Vec::with_capacity(N_LISTED + 1);
    for pod in pods {
        let at = first.partition_point(|known| *known < pod);
        if at < N_LISTED && first.get(at) != Some(&pod) {
            first.insert(at, pod);
            first.truncate(N_LISTED);
        }
    }
    first.into_iter().cloned().collect()
}

/// The pods of a row that satisfy `holds`: the first few by name.
pub(super) fn pods_on(at: At<'_>, holds: impl Fn(&Pod) -> bool) -> Vec<PodKey> {
    let placed = at.shard.pods.of(at.row).iter().map(|placed| &placed.pod);
    first_by_name(placed.filter(|pod| holds(pod)).map(|pod| pod.key()))
}
