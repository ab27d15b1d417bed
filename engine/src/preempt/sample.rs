//! Sample: which candidate nodes are tried, and when to stop, where not all are. Rule: S-PRE-6.

use crate::model::Node;
use crate::plan::Plan;
use crate::policy::DefaultPreemptionArgs;
use crate::rows::NodeRow;

/// How many candidates are enough, given `n_nodes` nodes where evicting might help.
pub(super) fn n_wanted(args: DefaultPreemptionArgs, n_nodes: usize) -> usize {
    let share = n_nodes * args.min_candidate_nodes_percentage as usize / 100;
    share.max(args.min_candidate_nodes_absolute as usize).min(n_nodes)
}

/// The nodes in the order in which they are tried: by the hashes of their names, from an offset that the seed gives.
pub(super) fn order(
    plan: &Plan<'_>,
    rows: impl Iterator<Item = NodeRow>,
    seed: u64,
) -> Vec<NodeRow> {
    let snapshot = plan.snapshot();
    let hash = |row: NodeRow| snapshot.shards[row.shard()].nodes.name_hash[row.row()];
    let name = |row: NodeRow| snapshot.node(row).map(Node::name);
    let mut order: Vec<(u32, NodeRow)> = rows.map(|row| (hash(row), row)).collect();
    order.sort_unstable();
    for equal in order.chunk_by_mut(|a, b| a.0 == b.0) {
        equal.sort_unstable_by_key(|(_, row)| name(*row));
    }
    if !order.is_empty() {
        let offset = scrambled(seed) % order.len() as u64;
        order.rotate_left(offset as usize);
    }
    order.into_iter().map(|(_, row)| row).collect()
}

/// Spreads seeds that are near each other (the finalizer of splitmix64).
fn scrambled(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-PRE-6
    #[test]
    fn a_tenth_but_at_least_a_hundred() {
        let args = DefaultPreemptionArgs::default();
        let wanted = [0, 60, 100, 500, 2000, 5000].map(|n| n_wanted(args, n));
        assert_eq!(wanted, [0, 60, 100, 100, 200, 500]);
    }
}
