//! Sample: which candidate nodes are tried, and when to stop, where not all are. Rule: S-PRE-6.

use std::cmp::Ordering;

use crate::model::Node;
use crate::plan::Plan;
use crate::policy::DefaultPreemptionArgs;
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// How many candidates are enough, given `n_nodes` nodes where evicting might help.
pub(super) fn n_wanted(args: DefaultPreemptionArgs, n_nodes: usize) -> usize {
    let share = n_nodes * args.min_candidate_nodes_percentage as usize / 100;
    share.max(args.min_candidate_nodes_absolute as usize).min(n_nodes)
}

/// The nodes in the order in which they are tried: by the hashes of their names, from an offset that the seed gives. Only
/// those that are asked for are sorted.
pub(super) struct Order<'a> {
    snapshot: &'a Snapshot,
    nodes: Vec<(u32, NodeRow)>,
    /// The first node that is tried last: those before it are less, those from it on are not.
    offset: usize,
    /// Number of nodes that are given, and where the sorted ones of the part end that the next one is in.
    n_given: usize,
    sorted_to: usize,
}

/// Number of nodes that are sorted at a time.
const SOME: usize = 128;

impl<'a> Order<'a> {
    pub(super) fn new(
        plan: &Plan<'a>,
        rows: impl Iterator<Item = NodeRow>,
        seed: u64,
    ) -> Order<'a> {
        let snapshot = plan.snapshot();
        let hash = |row: NodeRow| snapshot.shards[row.shard()].nodes.name_hash[row.row()];
        let mut nodes: Vec<(u32, NodeRow)> = rows.map(|row| (hash(row), row)).collect();
        let offset = scrambled(seed).checked_rem(nodes.len() as u64).unwrap_or(0) as usize;
        if !nodes.is_empty() {
            nodes.select_nth_unstable_by(offset, |a, b| compare(snapshot, a, b));
        }
        Order { snapshot, nodes, offset, n_given: 0, sorted_to: offset }
    }

    /// Number of all nodes.
    pub(super) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Sorts some more nodes, those from `at` to `end` being the ones that are left of their part.
    fn sort_some(&mut self, at: usize, end: usize) {
        let Order { snapshot, nodes, .. } = self;
        let left = &mut nodes[at..end];
        let n = left.len().min(SOME);
        if n < left.len() {
            left.select_nth_unstable_by(n, |a, b| compare(snapshot, a, b));
        }
        left[..n].sort_unstable_by(|a, b| compare(snapshot, a, b));
        self.sorted_to = at + n;
    }
}

impl Iterator for Order<'_> {
    type Item = NodeRow;

    fn next(&mut self) -> Option<NodeRow> {
        let n_nodes = self.nodes.len();
        if self.n_given == n_nodes {
            return None;
        }
        let at = (self.offset + self.n_given) % n_nodes;
        let end = if at < self.offset { self.offset } else { n_nodes };
        if at == 0 {
            self.sorted_to = 0;
        }
        if at == self.sorted_to {
            self.sort_some(at, end);
        }
        self.n_given += 1;
        self.nodes.get(at).map(|(_, row)| *row)
    }
}

/// By hash, and nodes of one hash by name.
fn compare(snapshot: &Snapshot, a: &(u32, NodeRow), b: &(u32, NodeRow)) -> Ordering {
    let name = |row: NodeRow| snapshot.node(row).map(Node::name);
    a.0.cmp(&b.0).then_with(|| name(a.1).cmp(&name(b.1)))
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
    use berth_testing::object;

    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::kernel::Kernels;
    use crate::plan::request::{PlaceRequest, TieBreak};
    use crate::policy::Policy;
    use crate::rows::ROWS;

    /// S-PRE-6
    #[test]
    fn a_tenth_but_at_least_a_hundred() {
        let args = DefaultPreemptionArgs::default();
        let wanted = [0, 60, 100, 500, 2000, 5000].map(|n| n_wanted(args, n));
        assert_eq!(wanted, [0, 60, 100, 100, 200, 500]);
    }

    /// Every node once, by name hash from each offset on.
    #[test]
    fn sorted_as_far_as_asked() {
        let cluster = Cluster::new();
        let node = |i| cluster.compile_node(&object::node(&format!("n{i} cpu=1 pods=9"))).unwrap();
        cluster.apply((0..700).map(|i| Delta::UpsertNode(node(i))).collect());
        let pod = cluster.compile_pod(&object::pod("p cpu=2")).unwrap();
        let (policy, snapshot) = (Policy::default(), cluster.snapshot());
        let tie_break = TieBreak::Lexicographic;
        let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
        let plan = Plan::new(&snapshot, &request, Kernels::detect());
        for n in [0, 1, 127, 128, 129, 700] {
            let rows: Vec<NodeRow> = (0..n).map(|i| NodeRow::new(i / ROWS, i % ROWS)).collect();
            let hash = |row: &NodeRow| snapshot.shards[row.shard()].nodes.name_hash[row.row()];
            let mut sorted = rows.clone();
            sorted.sort_unstable_by_key(|row| (hash(row), row.index()));
            for seed in 0..20 {
                let order: Vec<NodeRow> = Order::new(&plan, rows.iter().copied(), seed).collect();
                let offset = scrambled(seed).checked_rem(n as u64).unwrap_or(0) as usize;
                sorted.rotate_left(offset);
                assert_eq!(order, sorted, "{n} nodes, seed {seed}");
                sorted.rotate_right(offset);
            }
        }
    }
}
