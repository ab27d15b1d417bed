//! Importance: the order in which a node's pods are spared. Rules: S-PRE-10, S-PRE-11.

use super::upstream_sort;
use crate::model::pod::NOT_STARTED;
use crate::snapshot::placed_pod::PlacedPod;

/// A pod's importance, smaller for more important ones, and its position in a list of pods.
pub(super) type Key = (u128, u32);

/// Sorts positions in a list of pods, the most important pod first: higher priority, then earlier start. Equal pods are
/// ordered as kube-scheduler's sort leaves them.
pub(super) fn sort(positions: &mut [u32], pods: &[PlacedPod], keys: &mut Vec<Key>) {
    if positions.len() <= upstream_sort::FEW || has_equals(positions, pods, keys) {
        upstream_sort::sort(positions, |a, b| {
            let (a, b) = (&pods[a as usize], &pods[b as usize]);
            // kube-scheduler reads the clock for each pod without a start time, so the first of two such pods has
            // "started" earlier.
            key(a) < key(b) || (key(a) == key(b) && a.start_time == NOT_STARTED)
        });
        return;
    }
    for (position, (_, sorted)) in positions.iter_mut().zip(keys) {
        *position = *sorted;
    }
}

/// Sorts the keys of the pods by importance; returns whether some are equal.
fn has_equals(positions: &[u32], pods: &[PlacedPod], keys: &mut Vec<Key>) -> bool {
    keys.clear();
    keys.extend(positions.iter().map(|at| (key(&pods[*at as usize]), *at)));
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0].0 == pair[1].0)
}

/// The importance of a pod: smaller for more important ones; equal for equally important ones.
pub(super) fn key(placed: &PlacedPod) -> u128 {
    let less_important = !(placed.shape.facts.priority as u32 ^ 1 << 31);
    let later = placed.start_time as u64 ^ 1 << 63;
    u128::from(less_important) << 64 | u128::from(later)
}
