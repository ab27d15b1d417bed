//! Ties: the name hashes of the best rows in one column, so that the seeded choice among them reads nothing else.
//!
//! This pays off for many decisions of one kind in a row: their best rows are those of the last time, perhaps without
//! one. Any other change is detected, and the hashes are collected again after several decisions without one.

use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// The best rows by shard; a shard without any is not listed.
pub(crate) type BestRows = Vec<(usize, RowSet)>;

/// Number of decisions in a row with nearly the same best rows after which the hashes are collected: that costs as much as
/// several choices without them.
const N_STEADY: u32 = 8;

/// Cached data on the best rows of an evaluation.
#[derive(Debug, Default)]
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
    /// Number of decisions with nearly the same best rows, up to now.
    n_steady: u32,
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
            Change::None => {}
            Change::Left(row) => {
                self.seen.clone_from(best);
                self.remove(row);
            }
            Change::Other => {
                self.see(best, snapshot);
                return None;
            }
        }
        self.n_steady = self.n_steady.saturating_add(1);
        if self.rows.is_empty() {
            if self.n_steady < N_STEADY {
                return None;
            }
            self.gather(snapshot);
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
        self.n_steady = 0;
    }

    /// Removes the hash of a row, if hashes are there; mostly it is the row that was chosen last.
    fn remove(&mut self, row: NodeRow) {
        let at = match self.rows.get(self.chosen) {
            Some(chosen) if *chosen == row => Some(self.chosen),
            _ => self.rows.iter().position(|known| *known == row),
        };
        if let Some(at) = at {
            self.hashes.swap_remove(at);
            self.rows.swap_remove(at);
        }
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

    /// Decides until the rows are cached.
    fn settle(ties: &mut Ties, best: &BestRows, snapshot: &Snapshot) {
        let n_without = (0..=N_STEADY).take_while(|_| at_hand(ties, best, snapshot, 0).is_none());
        assert_eq!(n_without.count(), N_STEADY as usize);
    }

    #[test]
    fn one_may_leave_and_all_else_is_noticed() {
        let mut world = snapshot(3);
        let set = |rows: &[usize]| rows.iter().copied().collect::<RowSet>();
        let mut best = vec![(0, set(&[1, 5, 6])), (2, set(&[0, 9]))];
        let mut ties = Ties::default();
        settle(&mut ties, &best, &world);
        let all = Some(vec![1, 5, 6, 512, 521]);
        assert_eq!(at_hand(&mut ties, &best, &world, 1), all, "seen before");
        best[0].1 = set(&[1, 6]);
        assert_eq!(
            at_hand(&mut ties, &best, &world, 0),
            Some(vec![1, 6, 512, 521]),
            "5 was chosen"
        );
        ties.chosen = ties.rows.iter().position(|row| row.index() == 521).unwrap();
        best[0].1 = set(&[1]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512, 521]), "another left");
        best[1].1 = set(&[0]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512]));
        best[1].1 = set(&[0, 3]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "one came");
        best[1].1 = set(&[0]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "one left before hashes were there");
        best[1].1 = set(&[0, 3]);
        settle(&mut ties, &best, &world);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![1, 512, 515]));
        best[1].1 = set(&[3, 4]);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "one came and one left");
        best.remove(0);
        settle(&mut ties, &best, &world);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), Some(vec![515, 516]));
        let mut nodes = (*world.shards[2].nodes).clone();
        nodes.version = 2;
        Arc::make_mut(&mut world.shards[2]).nodes = Arc::new(nodes);
        assert_eq!(at_hand(&mut ties, &best, &world, 0), None, "rows may hold other nodes");
    }
}
