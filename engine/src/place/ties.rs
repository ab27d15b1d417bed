//! Ties: the name hashes of the best rows in one column, so that the seeded choice among them reads nothing else.
//!
//! This pays off for consecutive decisions of one kind: their best rows are those of the last time except for the
//! chosen one. Any other change is detected, and the hashes are collected again once two decisions in a row have nearly
//! the same best rows.

use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// The best rows by shard; a shard without any is not listed.
pub(crate) type BestRows = Vec<(usize, RowSet)>;

/// Cached data on the best rows of an evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ties {
    /// The best rows of the last time.
    seen: BestRows,
    /// Versions of these shards' nodes: a row may hold another node by now.
    versions: Vec<u64>,
    /// A hash for each row, unordered; empty until hashes are collected.
    hashes: Vec<u32>,
    rows: Vec<NodeRow>,
    /// Position of the row that was chosen last.
    chosen: usize,
}

/// How the best rows differ from those of the last time.
enum Change {
    None,
    /// Only this row left.
    Left(NodeRow),
    /// There are other changes.
    Other,
}

impl Ties {
    /// The hashes and the rows, if they are cached and up to date.
    pub(crate) fn take_in(&mut self, best: &BestRows, snapshot: &Snapshot) -> Option<Tied<'_>> {
        match self.change(best, snapshot) {
            Change::None if !self.rows.is_empty() => {}
            Change::Left(row) if self.rows.get(self.chosen) == Some(&row) => {
                self.hashes.swap_remove(self.chosen);
                self.rows.swap_remove(self.chosen);
                self.seen.clone_from(best);
            }
            Change::None | Change::Left(_) => {
                self.see(best, snapshot);
                self.gather(snapshot);
            }
            Change::Other => {
                self.see(best, snapshot);
                return None;
            }
        }
        Some(Tied { hashes: &self.hashes, rows: &self.rows, chosen: &mut self.chosen })
    }

    fn change(&self, best: &BestRows, snapshot: &Snapshot) -> Change {
        if best.len() != self.seen.len() {
            return Change::Other;
        }
        let mut change = Change::None;
        for (((shard, now), (seen, then)), version) in
            best.iter().zip(&self.seen).zip(&self.versions)
        {
            if shard != seen || snapshot.shards[*shard].nodes.version != *version {
                return Change::Other;
            }
            if now == then {
                continue;
            }
            let left = then.without(now);
            if left.len() != 1 || now.len() + 1 != then.len() || matches!(change, Change::Left(_)) {
                return Change::Other;
            }
            change = left
                .iter()
                .next()
                .map_or(Change::Other, |row| Change::Left(NodeRow::new(*shard, row)));
        }
        change
    }

    /// Remembers the best rows without their hashes.
    fn see(&mut self, best: &BestRows, snapshot: &Snapshot) {
        self.seen.clone_from(best);
        self.versions.clear();
        self.versions.extend(best.iter().map(|(shard, _)| snapshot.shards[*shard].nodes.version));
        self.hashes.clear();
        self.rows.clear();
    }

    fn gather(&mut self, snapshot: &Snapshot) {
        for (shard, rows) in &self.seen {
            let of_shard = &snapshot.shards[*shard].nodes.name_hash;
            self.hashes.extend(rows.iter().map(|row| of_shard[row]));
            self.rows.extend(rows.iter().map(|row| NodeRow::new(*shard, row)));
        }
    }
}

/// The best rows and the hashes of their names, in the same order.
pub(crate) struct Tied<'a> {
    pub(crate) hashes: &'a [u32],
    pub(crate) rows: &'a [NodeRow],
    /// To be set to the position of the chosen row.
    pub(crate) chosen: &'a mut usize,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::Model;
    use crate::rows::{ROWS, RowSet};
    use crate::snapshot::node_table::NodeTable;
    use crate::snapshot::shard::Shard;

    fn snapshot(n_shards: usize) -> Snapshot {
        let mut snapshot = Snapshot::empty(Arc::new(Model::new()));
        snapshot.shards = (0..n_shards)
            .map(|index| {
                let mut nodes = NodeTable { version: 1, ..NodeTable::default() };
                for row in 0..ROWS {
                    nodes.name_hash.0[row] = (index * ROWS + row) as u32 * 7;
                }
                Arc::new(Shard { index, nodes: Arc::new(nodes), ..Shard::default() })
            })
            .collect();
        snapshot
    }

    /// The cached rows; afterwards the one at `choose` counts as chosen.
    fn at_hand(
        ties: &mut Ties,
        best: &BestRows,
        snapshot: &Snapshot,
        choose: usize,
    ) -> Option<Vec<usize>> {
        let Tied { hashes, rows, chosen } = ties.take_in(best, snapshot)?;
        let expected: Vec<u32> = rows.iter().map(|row| row.index() as u32 * 7).collect();
        assert_eq!(hashes, expected);
        *chosen = choose;
        let mut rows: Vec<usize> = rows.iter().map(|row| row.index()).collect();
        rows.sort_unstable();
        Some(rows)
    }

    #[test]
    fn the_chosen_one_may_leave_and_all_else_is_noticed() {
        let mut world = snapshot(3);
        let set = |rows: &[usize]| rows.iter().copied().collect::<RowSet>();
        let mut best = vec![(0, set(&[1, 5])), (2, set(&[0, 9]))];
        let mut ties = Ties::default();
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "never seen");
        let all = Some(vec![1, 5, 512, 521]);
        assert_eq!(at_hand(&mut ties, &best, &world, 1), all, "seen before");
        best[0].1 = set(&[1]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512, 521]), "5 was chosen");
        best[1].1 = set(&[0]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512]), "another left");
        best[1].1 = set(&[0, 3]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "one came");
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512, 515]));
        best[1].1 = set(&[3, 4]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "one came and one left");
        at_hand(&mut ties, &best, &world, 0);
        best.remove(0);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "a shard left");
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![515, 516]));
        let mut nodes = (*world.shards[2].nodes).clone();
        nodes.version = 2;
        Arc::make_mut(&mut world.shards[2]).nodes = Arc::new(nodes);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "rows may hold other nodes");
    }
}
