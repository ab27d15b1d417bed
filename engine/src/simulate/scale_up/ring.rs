//! Ring: the order in which nodes are tried. Each search begins after the node that was found last and wraps around.
//! Rule: S-CAS-2 (default order).

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// Existing nodes by name, then added nodes in order of addition.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    rows: Vec<NodeRow>,
    places: FxHashMap<NodeRow, usize>,
    n_existing: usize,
    next: usize,
}

impl Ring {
    /// A ring of the nodes of a snapshot.
    pub(super) fn of(snapshot: &Snapshot) -> Ring {
        let mut named = Vec::with_capacity(snapshot.n_nodes());
        for shard in &snapshot.shards {
            for row in shard.nodes.rows.iter() {
                if let Some(node) = shard.nodes.node(row) {
                    named.push((node.name(), NodeRow::new(shard.index, row)));
                }
            }
        }
        named.sort_unstable();
        let rows: Vec<NodeRow> = named.into_iter().map(|(_, row)| row).collect();
        let places = rows.iter().enumerate().map(|(place, row)| (*row, place)).collect();
        Ring { n_existing: rows.len(), rows, places, next: 0 }
    }

    /// Appends an added node.
    pub(super) fn push(&mut self, row: NodeRow) {
        self.places.insert(row, self.rows.len());
        self.rows.push(row);
    }

    /// Makes the next search begin after this row.
    pub(super) fn found(&mut self, row: NodeRow) {
        if let Some(place) = self.places.get(&row) {
            self.next = (place + 1) % self.rows.len();
        }
    }

    /// Number of nodes added before this one; `None` for an existing node.
    pub(super) fn place_among_added(&self, row: NodeRow) -> Option<usize> {
        self.places.get(&row)?.checked_sub(self.n_existing)
    }

    /// The existing nodes.
    pub(super) fn existing(&self) -> impl Iterator<Item = NodeRow> + '_ {
        self.within(0..self.n_existing)
    }

    /// The added nodes, without the first `but_first`.
    pub(super) fn added(&self, but_first: usize) -> impl Iterator<Item = NodeRow> + '_ {
        self.within(self.n_existing + but_first..self.rows.len())
    }

    /// All nodes, existing and added.
    pub(super) fn all(&self) -> impl Iterator<Item = NodeRow> + '_ {
        self.within(0..self.rows.len())
    }

    fn within(&self, range: Range<usize>) -> impl Iterator<Item = NodeRow> + '_ {
        let from = self.next.clamp(range.start, range.end);
        let first = self.rows.get(from..range.end).unwrap_or(&[]);
        let then = self.rows.get(range.start..from).unwrap_or(&[]);
        first.iter().chain(then).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-CAS-2
    #[test]
    fn each_search_begins_after_the_last_match() {
        let row = |n| NodeRow::new(0, n);
        let rows: Vec<NodeRow> = (0..3).map(row).collect();
        let places = rows.iter().enumerate().map(|(place, row)| (*row, place)).collect();
        let mut ring = Ring { rows, places, n_existing: 3, next: 0 };
        let order = |found: Vec<NodeRow>| found.iter().map(|row| row.row()).collect::<Vec<_>>();
        ring.found(row(0));
        assert_eq!(order(ring.existing().collect()), [1, 2, 0]);
        assert_eq!(order(ring.added(0).collect()), [0; 0]);
        ring.push(row(7));
        ring.push(row(8));
        assert_eq!(order(ring.all().collect()), [1, 2, 7, 8, 0]);
        assert_eq!(order(ring.added(0).collect()), [7, 8]);
        ring.found(row(7));
        assert_eq!(order(ring.added(0).collect()), [8, 7]);
        assert_eq!(order(ring.added(1).collect()), [8]);
        assert_eq!(order(ring.added(2).collect()), [0; 0]);
        assert_eq!(order(ring.existing().collect()), [0, 1, 2], "it begins anew past the end");
        ring.found(row(8));
        assert_eq!(order(ring.all().collect()), [0, 1, 2, 7, 8]);
    }
}
