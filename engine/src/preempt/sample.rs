//! Sample: which candidate nodes are tried, and when to stop, where not all are. Rule: S-PRE-6.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::resolvable::Resolvable;
use crate::model::Node;
use crate::policy::DefaultPreemptionArgs;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::snapshot::Snapshot;

/// How many candidates are enough, given `n_nodes` nodes where evicting might help.
pub(super) fn n_wanted(args: DefaultPreemptionArgs, n_nodes: usize) -> usize {
    let share = n_nodes * args.min_candidate_nodes_percentage as usize / 100;
    share.max(args.min_candidate_nodes_absolute as usize).min(n_nodes)
}

/// The order of the nodes that a search found last, shared by the searches for all shapes.
#[derive(Debug, Default)]
pub(crate) struct LastOrder(Mutex<Arc<Order>>);

impl LastOrder {
    /// The order of a snapshot's nodes.
    ///
    /// Cost: a look at each hash, and sorting all if nodes came or went since.
    pub(super) fn of(&self, snapshot: &Snapshot) -> Arc<Order> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.is_of(snapshot) {
            *last = Arc::new(Order::of(snapshot));
        }
        last.clone()
    }
}

/// All nodes by the hashes of their names. Nodes are tried in this order, from an offset that a seed gives.
#[derive(Debug, Default)]
pub(super) struct Order {
    rows: Vec<NodeRow>,
    /// The nodes that are in this order, by shard: the rows that have a node, and the hashes of the nodes' names.
    sorted: Vec<(RowSet, [u32; ROWS])>,
    /// The nodes that share a hash with another one, with their names, which decide between them.
    tied: Vec<(NodeRow, Arc<str>)>,
}

impl Order {
    fn of(snapshot: &Snapshot) -> Order {
        let nodes = snapshot.shards.iter().map(|shard| &shard.nodes);
        let sorted: Vec<(RowSet, [u32; ROWS])> =
            nodes.map(|nodes| (nodes.rows, nodes.name_hash.0)).collect();
        let of_shard = |(shard, (rows, hashes)): (usize, &(RowSet, [u32; ROWS]))| {
            let row = |row: usize| (hashes[row], NodeRow::new(shard, row));
            rows.iter().map(row).collect::<Vec<_>>()
        };
        let mut nodes: Vec<(u32, NodeRow)> = sorted.iter().enumerate().flat_map(of_shard).collect();
        nodes.sort_unstable_by(|a, b| compare(snapshot, a, b));
        let tied = nodes.chunk_by(|a, b| a.0 == b.0).filter(|of_hash| of_hash.len() > 1).flatten();
        let tied =
            tied.filter_map(|(_, row)| Some((*row, snapshot.node(*row)?.facts().name.clone())));
        Order { tied: tied.collect(), rows: nodes.iter().map(|(_, row)| *row).collect(), sorted }
    }

    /// Whether the snapshot's nodes are in the same rows, and have the same names as far as the order depends on them.
    fn is_of(&self, snapshot: &Snapshot) -> bool {
        let mut both = self.sorted.iter().zip(&snapshot.shards);
        let mut tied = self.tied.iter();
        self.sorted.len() == snapshot.shards.len()
            && both.all(|((rows, hashes), shard)| {
                *rows == shard.nodes.rows && *hashes == shard.nodes.name_hash.0
            })
            && tied
                .all(|(row, name)| snapshot.node(*row).is_some_and(|node| node.name() == &**name))
    }

    /// Some of the nodes, from the one at an offset among them on.
    pub(super) fn among<'a>(
        &'a self,
        these: &'a Resolvable,
        seed: u64,
    ) -> impl Iterator<Item = NodeRow> + 'a {
        let n_nodes = these.len();
        let offset = scrambled(seed).checked_rem(n_nodes as u64).unwrap_or(0) as usize;
        let from = match n_nodes == self.rows.len() {
            true => offset,
            false => {
                let mut of_these = (0..).zip(&self.rows).filter(|(_, row)| these.contains(**row));
                of_these.nth(offset).map_or(0, |(at, _)| at)
            }
        };
        let (last, first) = self.rows.split_at(from);
        first.iter().chain(last).copied().filter(|row| these.contains(*row))
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
    use crate::hash::hash_name;
    use crate::snapshot::shard::Shard;

    /// S-PRE-6
    #[test]
    fn a_tenth_but_at_least_a_hundred() {
        let args = DefaultPreemptionArgs::default();
        let wanted = [0, 60, 100, 500, 2000, 5000].map(|n| n_wanted(args, n));
        assert_eq!(wanted, [0, 60, 100, 100, 200, 500]);
    }

    /// Each of some nodes once, by name hash from each offset on, before and after nodes went and came.
    #[test]
    fn by_hash_from_an_offset_on() {
        let cluster = Cluster::new();
        let node = |i: usize| {
            let node = object::node(&format!("n{i} cpu=1 pods=9"));
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        };
        cluster.apply((0..700).map(node).collect());
        let last = LastOrder::default();
        for _ in 0..2 {
            let snapshot = cluster.snapshot();
            let order = last.of(&snapshot);
            assert!(Arc::ptr_eq(&order, &last.of(&snapshot)), "it is sorted once");
            let rows_of = |is_in: &dyn Fn(usize) -> bool| -> Resolvable {
                let of_shard = |shard: &Arc<Shard>| {
                    let rows = shard.nodes.rows.iter();
                    rows.filter(|row| is_in(NodeRow::new(shard.index, *row).index())).collect()
                };
                Resolvable::of(snapshot.shards.iter().map(of_shard).collect())
            };
            let some: [&dyn Fn(usize) -> bool; 4] =
                [&|_| true, &|at| at % 3 == 1, &|at| at == 400, &|_| false];
            for among in some.map(rows_of) {
                let hash = |row: &NodeRow| snapshot.shards[row.shard()].nodes.name_hash[row.row()];
                let mut sorted: Vec<NodeRow> = among.rows().collect();
                sorted.sort_unstable_by_key(|row| (hash(row), row.index()));
                for seed in 0..20 {
                    let offset = scrambled(seed).checked_rem(sorted.len() as u64).unwrap_or(0);
                    sorted.rotate_left(offset as usize);
                    assert_eq!(
                        order.among(&among, seed).collect::<Vec<_>>(),
                        sorted,
                        "seed {seed}"
                    );
                    sorted.rotate_right(offset as usize);
                }
            }
            let gone = |i: usize| Delta::DeleteNode(format!("n{i}").into());
            cluster.apply((0..50).map(gone).chain((700..720).map(node)).collect());
        }
    }

    /// Nodes of one hash are ordered by name, also once each has the other's row.
    #[test]
    fn nodes_of_one_hash_are_told_apart() {
        let mut seen = std::collections::HashMap::new();
        let [a, b] = (0..1_000_000)
            .map(|i| format!("n{i}"))
            .find_map(|name| Some([seen.insert(hash_name(&name), name.clone())?, name]))
            .unwrap();
        let cluster = Cluster::new();
        let add = |name: &String| {
            let node = object::node(&format!("{name} cpu=1 pods=9"));
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        };
        let remove = |name: &String| Delta::DeleteNode(name.as_str().into());
        let (last, mut firsts) = (LastOrder::default(), Vec::new());
        for [first, second] in [[&a, &b], [&b, &a], [&a, &b], [&b, &a]] {
            cluster.apply(vec![remove(first), remove(second), add(first), add(second)]);
            let snapshot = cluster.snapshot();
            let name = |row: &NodeRow| snapshot.node(*row).unwrap().name().to_owned();
            let order = last.of(&snapshot);
            let names: Vec<String> = order.rows.iter().map(name).collect();
            assert!(names.len() == 2 && names.is_sorted(), "{names:?}");
            firsts.push(order.rows[0]);
        }
        assert!(firsts.iter().any(|row| *row != firsts[0]), "they change their rows");
    }
}
