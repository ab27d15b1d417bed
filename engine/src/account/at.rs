//! At: the node that is compared for, and what the comparisons of all plugins share.

use super::comparison::{Compared, N_LISTED, ResourceHolder};
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

/// Whether the node has what the pod asks for, and the comparison that says so.
pub(super) type Judged = (bool, Compared);

/// The first few of these pods by name.
pub(super) fn first_by_name<'k>(pods: impl Iterator<Item = &'k PodKey>) -> Vec<PodKey> {
    let mut first = Vec::new();
    pods.for_each(|pod| keep_first(&mut first, pod));
    first
}

/// Adds a pod to the first few by name, each once, if it is one of them.
pub(super) fn keep_first(first: &mut Vec<PodKey>, pod: &PodKey) {
    if let Err(at) = first.binary_search(pod)
        && at < N_LISTED
    {
        first.truncate(N_LISTED - 1);
        first.insert(at.min(first.len()), pod.clone());
    }
}

/// The few pods that hold most, largest first and then by name.
pub(super) fn largest<'k>(holders: impl Iterator<Item = (i64, &'k PodKey)>) -> Vec<ResourceHolder> {
    let mut holders: Vec<_> = holders.collect();
    holders.sort_unstable_by(|(a, a_pod), (b, b_pod)| b.cmp(a).then_with(|| a_pod.cmp(b_pod)));
    let largest = holders.into_iter().take(N_LISTED);
    largest.map(|(amount, pod)| ResourceHolder { pod: pod.clone(), amount }).collect()
}

/// The pods of a row that satisfy `holds`: the first few by name.
pub(super) fn pods_on(at: At<'_>, holds: impl Fn(&Pod) -> bool) -> Vec<PodKey> {
    let placed = at.shard.pods.of(at.row).iter().map(|placed| &placed.pod);
    first_by_name(placed.filter(|pod| holds(pod)).map(|pod| pod.key()))
}
