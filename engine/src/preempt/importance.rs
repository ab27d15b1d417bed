//! Importance: which of a node's pods are spared first. Rules: S-PRE-10, S-PRE-11.

use super::upstream_sort;
use crate::model::pod::NOT_STARTED;
use crate::snapshot::pod_table::PlacedPod;

/// A pod's importance, less for more important ones, and its position in a list of pods.
pub(super) type Key = (u128, u32);

/// Sorts positions in a list of pods, the most important pod first: higher priority, then earlier start. Equal pods end as
/// kube-scheduler's sort leaves them.
pub(super) fn sort(positions: &mut [u32], pods: &[PlacedPod], keys: &mut Vec<Key>) {
    if positions.len() <= upstream_sort::FEW || has_equals(positions, pods, keys) {
        upstream_sort::sort(positions, |a, b| {
            let (a, b) = (&pods[a as usize], &pods[b as usize]);
            // Of two pods that have not started the first asked about has "started" earlier: now, and now again.
            key(a) < key(b) || (key(a) == key(b) && a.start_time == NOT_STARTED)
        });
        return;
    }
    for (position, (_, sorted)) in positions.iter_mut().zip(keys) {
        *position = *sorted;
    }
}

/// Sorts the keys of the pods in any way that importance allows; whether some are equal.
fn has_equals(positions: &[u32], pods: &[PlacedPod], keys: &mut Vec<Key>) -> bool {
    keys.clear();
    keys.extend(positions.iter().map(|at| (key(&pods[*at as usize]), *at)));
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0].0 == pair[1].0)
}

/// Less for the more important pod; equal for pods that are.
pub(super) fn key(placed: &PlacedPod) -> u128 {
    let less_important = !(placed.shape.facts.priority as u32 ^ 1 << 31);
    let later = placed.start_time as u64 ^ 1 << 63;
    u128::from(less_important) << 64 | u128::from(later)
}
