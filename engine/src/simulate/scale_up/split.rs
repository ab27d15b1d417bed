//! Split: new nodes distributed over similar groups so that the groups' sizes differ as little as possible.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::request::NodeGroup;

/// How many of `n_nodes` each member gets, by position: each node goes to the smallest group that has room; of equal
/// ones to that of the lowest position. Nodes that no group has room for are left out.
pub(super) fn split(
    groups: &[NodeGroup],
    members: &[usize],
    n_nodes: usize,
) -> Vec<(usize, usize)> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let size = |member: usize| groups[member].size;
    let has_room =
        |member: usize, size: usize| groups[member].max_size.is_none_or(|max| size < max);
    let mut smallest: BinaryHeap<Reverse<(usize, usize)>> = sorted
        .iter()
        .filter(|member| has_room(**member, size(**member)))
        .map(|member| Reverse((size(*member), *member)))
        .collect();
    let mut added: Vec<(usize, usize)> = sorted.iter().map(|member| (*member, 0)).collect();
    for _ in 0..n_nodes {
        let Some(Reverse((size, member))) = smallest.pop() else { break };
        if let Ok(at) = sorted.binary_search(&member) {
            added[at].1 += 1;
        }
        if has_room(member, size + 1) {
            smallest.push(Reverse((size + 1, member)));
        }
    }
    added
}
