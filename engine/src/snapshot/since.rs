//! Since: the rows that differ between two snapshots, and the requests that are frequent in one, for those who show a
//! cluster as it changes. Not for decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Snapshot;
use super::view::NodeView;
use crate::rows::{NodeRow, ROWS};

/// A row of a snapshot. A node keeps its row for as long as the cluster has it; later another node may get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowView {
    /// Number of the row, from 0.
    pub row: usize,
    /// The node; `None` if the row is free now.
    pub node: Option<NodeView>,
    /// Whether the node is under a fence of the ledger (S-FNC-1).
    pub is_fenced: bool,
}

/// Amounts by resource: cpu in milli-units, everything else in whole units; zeros are left out.
pub type Amounts = Vec<(Arc<str>, i64)>;

impl Snapshot {
    /// The rows whose node, fence or sums of pods are other ones than in an earlier snapshot of the same cluster, in order;
    /// without one all rows that have a node. Cost: a step for each shard, and one for each row of a shard that changed.
    pub fn rows_since(&self, earlier: Option<&Snapshot>) -> Vec<RowView> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            let before = earlier.and_then(|earlier| earlier.shards.get(shard.index));
            if before.is_some_and(|before| before.version == shard.version) {
                continue;
            }
            let differs = |row: &usize| match before {
                Some(before) => before.usage.version[*row] != shard.usage.version[*row],
                None => shard.nodes.rows.contains(*row),
            };
            rows.extend((0..ROWS).filter(differs).map(|row| RowView {
                row: NodeRow::new(shard.index, row).index(),
                node: self.node_view(shard, row),
                is_fenced: shard.nodes.fenced.contains(row),
            }));
        }
        rows
    }

    /// The `n` most frequent requests of pods on nodes, each with the number of its pods, the most frequent first. Pods that
    /// request nothing are left out. Cost: a step for each pod.
    pub fn frequent_requests(&self, n: usize) -> Vec<(Amounts, u64)> {
        let mut of_shapes = FxHashMap::default();
        for pod in self.shards.iter().flat_map(|shard| (0..ROWS).flat_map(|row| shard.pods.of(row)))
        {
            let shape = pod.pod.shape();
            of_shapes.entry(Arc::as_ptr(shape)).or_insert_with(|| (shape.clone(), 0)).1 += 1;
        }
        let mut requests: BTreeMap<Amounts, u64> = BTreeMap::new();
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for (shape, n_pods) in of_shapes.values() {
            if !shape.requests.is_empty() {
                *requests.entry(shape.requests.to_vec()).or_default() += n_pods;
            }
        }
        let mut requests: Vec<_> = requests.into_iter().collect();
        // Stable, so that equally frequent ones stay in order.
        requests.sort_by_key(|(_, n_pods)| std::cmp::Reverse(*n_pods));
        requests.truncate(n);
        requests
    }
}

#[cfg(test)]
mod tests {
    use berth_testing::object;

    use crate::{Cluster, Delta, PodKey};

    fn apply(cluster: &Cluster, deltas: Vec<Delta>) {
        assert!(cluster.apply(deltas).rejected.is_empty());
    }

    fn node(cluster: &Cluster, text: &str) -> Delta {
        Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap())
    }

    fn pod(cluster: &Cluster, text: &str) -> Delta {
        Delta::UpsertPod(cluster.compile_reported_pod(&object::pod(text)).unwrap())
    }

    fn names(rows: Vec<super::RowView>) -> Vec<(usize, String)> {
        let name = |row: super::RowView| {
            (row.row, row.node.map_or_else(|| "-".to_owned(), |node| node.name.to_string()))
        };
        rows.into_iter().map(name).collect()
    }

    #[test]
    fn only_rows_that_changed_are_told() {
        let cluster = Cluster::new();
        apply(&cluster, (0..600).map(|i| node(&cluster, &format!("n{i} cpu=4"))).collect());
        let first = cluster.snapshot();
        assert_eq!(first.rows_since(None).len(), 600);
        assert_eq!(first.rows_since(Some(&first)), []);
        let row_of = |name: &str| {
            let rows = names(first.rows_since(None));
            rows.into_iter().find(|(_, of)| of == name).unwrap().0
        };
        let row = row_of("n7");
        apply(&cluster, vec![pod(&cluster, "a cpu=1 node=n7")]);
        let second = cluster.snapshot();
        assert_eq!(names(second.rows_since(Some(&first))), [(row, "n7".to_owned())]);
        apply(&cluster, vec![Delta::DeleteNode("n7".into()), node(&cluster, "n8 cpu=8")]);
        let third = cluster.snapshot();
        let expected = [(row, "-".to_owned()), (row_of("n8"), "n8".to_owned())];
        let (mut found, mut expected) = (names(third.rows_since(Some(&second))), expected.to_vec());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        cluster.set_fenced("n9", true);
        let fenced = cluster.snapshot().rows_since(Some(&third));
        assert!(fenced.len() == 1 && fenced[0].is_fenced, "{fenced:?}");
    }

    #[test]
    fn frequent_requests_come_first() {
        let cluster = Cluster::new();
        apply(&cluster, vec![node(&cluster, "n cpu=64 memory=64Gi pods=99")]);
        let pods =
            [("a", 3, "cpu=1"), ("b", 5, "cpu=1 label:app=b"), ("c", 2, "cpu=2"), ("d", 9, "")];
        for (name, n, asked) in pods {
            let text = |i| format!("{name}{i} node=n {asked}");
            apply(&cluster, (0..n).map(|i| pod(&cluster, &text(i))).collect());
        }
        let of = |n| {
            let frequent = cluster.snapshot().frequent_requests(n);
            frequent.into_iter().map(|(amounts, n)| (amounts[0].1, n)).collect::<Vec<_>>()
        };
        assert_eq!(of(9), [(1_000, 8), (2_000, 2)]);
        assert_eq!(of(1), [(1_000, 8)]);
        let key = PodKey::new("default", "c0");
        apply(&cluster, vec![Delta::DeletePod { key, uid: None }]);
        assert_eq!(of(9), [(1_000, 8), (2_000, 1)]);
    }
}
