//! Ranking: the rows that pass every filter, and those of them with the highest total.

use super::shard_set::ShardSet;
use super::ties::{BestRows, Tied, Ties};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// Part of all shards up to which changed ones are taken in one by one.
const FEW_OF: usize = 2;

/// The rows that pass every filter, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Feasible {
    rows: Vec<RowSet>,
    n_rows: u32,
    first: NodeRow,
}

impl Feasible {
    /// The feasible rows of every shard, in the shards' order; `None` if there are none.
    pub(crate) fn of(shards: impl IntoIterator<Item = RowSet>) -> Option<Feasible> {
        let rows: Vec<RowSet> = shards.into_iter().collect();
        let first_of =
            |(shard, rows): (usize, &RowSet)| Some(NodeRow::new(shard, rows.iter().next()?));
        let first = rows.iter().enumerate().find_map(first_of)?;
        let n_rows = rows.iter().map(RowSet::len).sum();
        Some(Feasible { rows, n_rows, first })
    }

    /// A single feasible row.
    pub(crate) fn only(row: NodeRow, n_shards: usize) -> Feasible {
        debug_assert!(row.shard() < n_shards, "the row is in a shard");
        let rows = (0..n_shards).map(|shard| row.of_shard(shard)).collect();
        Feasible { rows, n_rows: 1, first: row }
    }

    /// The feasible rows of each shard, in the shards' order.
    pub(crate) fn by_shard(&self) -> &[RowSet] {
        &self.rows
    }

    pub(crate) fn len(&self) -> u32 {
        self.n_rows
    }

    pub(crate) fn first(&self) -> NodeRow {
        self.first
    }
}

/// The best rows of all shards, and of each shard, so that a changed shard can be ranked again alone.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// By shard: the highest total, `i32::MIN` for a shard without rows; the rows that have it; the version of its nodes.
    totals: Vec<i32>,
    rows: Vec<RowSet>,
    nodes_versions: Vec<u64>,
    /// Shards that were set since the ranking was last settled.
    changed: ShardSet,
    /// The highest total of all, and the rows that have it; shards are in order.
    total: i32,
    best: BestRows,
    /// Number of rows of `best`.
    n_rows: u32,
    /// Memory for the next ones.
    spare: BestRows,
    ties: Ties,
}

impl Ranking {
    /// A ranking of rows of one total; shards are in order.
    pub(crate) fn of(best: BestRows) -> Ranking {
        let n_rows = n_rows_of(&best);
        Ranking { best, n_rows, ..Ranking::default() }
    }

    /// Sets the number of shards; new ones have no rows.
    pub(crate) fn resize(&mut self, n_shards: usize) {
        self.totals.resize(n_shards, i32::MIN);
        self.rows.resize(n_shards, RowSet::EMPTY);
        self.nodes_versions.resize(n_shards, 0);
    }

    /// Removes the rows of all shards, for a ranking of all of them.
    pub(crate) fn clear(&mut self, n_shards: usize) {
        self.resize(n_shards);
        self.totals.fill(i32::MIN);
        self.changed = ShardSet::all(n_shards);
    }

    /// The highest total of a shard and the rows that have it.
    pub(crate) fn of_shard(&self, index: usize) -> (i32, RowSet) {
        (self.totals[index], self.rows[index])
    }

    /// Sets the highest total of a shard and the rows that have it; `i32::MIN` if there are none.
    pub(crate) fn set(&mut self, shard: &Shard, total: i32, rows: RowSet) {
        let index = shard.index;
        // A row may hold another node by now.
        let version = shard.nodes.version;
        let is_same_nodes = std::mem::replace(&mut self.nodes_versions[index], version) == version;
        if is_same_nodes && self.of_shard(index) == (total, rows) {
            return;
        }
        (self.totals[index], self.rows[index]) = (total, rows);
        if !is_same_nodes {
            self.ties.disturb();
        }
        self.changed.insert(index);
    }

    /// Finds the best rows of all, after some shards were set.
    pub(crate) fn settle(&mut self) {
        let total = self.totals.iter().copied().max().unwrap_or(i32::MIN);
        let are_few = self.changed.len() * FEW_OF <= self.totals.len();
        if std::mem::replace(&mut self.total, total) == total && are_few {
            let mut from = 0;
            while let Some(shard) = self.changed.next(from) {
                self.renew(shard);
                from = shard + 1;
            }
        } else {
            self.collect();
        }
        self.changed.clear();
    }

    /// Takes in one shard; the highest total is as before.
    fn renew(&mut self, shard: usize) {
        let is_best = self.totals[shard] == self.total && self.total != i32::MIN;
        let now = if is_best { self.rows[shard] } else { RowSet::EMPTY };
        match self.best.binary_search_by_key(&shard, |(shard, _)| *shard) {
            Ok(at) => {
                self.n_rows = self.n_rows + now.len() - self.best[at].1.len();
                self.ties.note(shard, &self.best[at].1, &now);
                if is_best {
                    self.best[at].1 = now;
                } else {
                    self.best.remove(at);
                }
            }
            Err(at) if is_best => {
                self.n_rows += now.len();
                self.ties.note(shard, &RowSet::EMPTY, &now);
                self.best.insert(at, (shard, now));
            }
            Err(_) => {}
        }
    }

    /// Collects the best rows of all shards.
    fn collect(&mut self) {
        std::mem::swap(&mut self.best, &mut self.spare);
        self.best.clear();
        if self.total != i32::MIN {
            let shards = self.totals.iter().zip(&self.rows).enumerate();
            let best = shards.filter(|(_, (total, _))| **total == self.total);
            self.best.extend(best.map(|(shard, (_, rows))| (shard, *rows)));
        }
        self.n_rows = n_rows_of(&self.best);
        let (then, now) = (&self.spare, &self.best);
        if then.len() != now.len() || then.iter().zip(now).any(|(then, now)| then.0 != now.0) {
            self.ties.disturb();
            return;
        }
        for ((_, then), (shard, now)) in then.iter().zip(now) {
            self.ties.note(*shard, then, now);
        }
    }

    pub(crate) fn total(&self) -> i64 {
        i64::from(self.total)
    }

    pub(crate) fn n_rows(&self) -> u32 {
        self.n_rows
    }

    /// The rows, by shard.
    pub(crate) fn rows(&self) -> &[(usize, RowSet)] {
        &self.best
    }

    /// The rows with the hashes of their names, where these are cached from choosing among nearly the same rows before.
    pub(crate) fn tied(&mut self, snapshot: &Snapshot) -> Option<Tied<'_>> {
        debug_assert_eq!(self.n_rows, n_rows_of(&self.best), "the number of best rows");
        self.ties.take_in(&self.best, self.n_rows, snapshot)
    }
}

fn n_rows_of(best: &BestRows) -> u32 {
    best.iter().map(|(_, rows)| rows.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::Model;
    use crate::place::ties::{Group, N_STEADY};
    use crate::rows::ROWS;
    use crate::snapshot::node_table::NodeTable;

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

    fn set(rows: &[usize]) -> RowSet {
        rows.iter().copied().collect()
    }

    /// A ranking over some shards, of which every one is set if `sets_all`, else those whose rows are other ones.
    struct World {
        snapshot: Snapshot,
        ranking: Ranking,
        shards: Vec<(i32, RowSet)>,
        sets_all: bool,
    }

    impl World {
        fn new(n_shards: usize, sets_all: bool) -> World {
            let (snapshot, mut ranking) = (snapshot(n_shards), Ranking::default());
            ranking.clear(n_shards);
            let none = (i32::MIN, RowSet::EMPTY);
            snapshot.shards.iter().for_each(|shard| ranking.set(shard, none.0, none.1));
            World { snapshot, ranking, shards: vec![none; n_shards], sets_all }
        }

        /// The cached rows, after a shard has got other best rows; then the one at `choose` counts as chosen.
        fn tied_after(
            &mut self,
            shard: usize,
            best: (i32, RowSet),
            choose: usize,
        ) -> Option<Vec<usize>> {
            self.shards[shard] = best;
            self.ranking.resize(self.shards.len());
            if self.sets_all {
                self.ranking.clear(self.shards.len());
            }
            for (index, (total, rows)) in self.shards.iter().enumerate() {
                if self.sets_all || index == shard {
                    self.ranking.set(&self.snapshot.shards[index], *total, *rows);
                }
            }
            self.ranking.settle();
            let highest = self.shards.iter().map(|(total, _)| *total).max().unwrap();
            let best: BestRows = (0..self.shards.len())
                .filter(|shard| self.shards[*shard].0 == highest && highest != i32::MIN)
                .map(|shard| (shard, self.shards[shard].1))
                .collect();
            assert_eq!(
                (self.ranking.total(), self.ranking.rows()),
                (i64::from(highest), &best[..])
            );
            let Tied { groups: [Group { hashes, rows }], chosen } =
                self.ranking.tied(&self.snapshot)?
            else {
                panic!("few rows are in one group")
            };
            let expected: Vec<u32> = rows.iter().map(|row| row.index() as u32 * 7).collect();
            assert_eq!(*hashes, expected);
            *chosen = (0, choose);
            let mut rows: Vec<usize> = rows.iter().map(|row| row.index()).collect();
            rows.sort_unstable();
            Some(rows)
        }

        /// Decides until the rows are cached.
        fn settle(&mut self, shard: usize, best: (i32, RowSet)) {
            let without = (0..=N_STEADY).take_while(|_| self.tied_after(shard, best, 0).is_none());
            let n_without = without.count() as u32;
            assert!(n_without == N_STEADY || n_without == N_STEADY - 1, "{n_without}");
        }
    }

    #[test]
    fn one_may_leave_and_all_else_is_noticed() {
        for sets_all in [false, true] {
            let mut world = World::new(20, sets_all);
            world.tied_after(0, (9, set(&[1, 5, 6])), 0);
            world.settle(2, (9, set(&[0, 9])));
            let all = Some(vec![1, 5, 6, 512, 521]);
            assert_eq!(world.tied_after(2, (9, set(&[0, 9])), 1), all, "seen before");
            // A shard with a lower total is none of the best.
            assert_eq!(world.tied_after(7, (8, set(&[3])), 1), all);
            let left = Some(vec![1, 6, 512, 521]);
            assert_eq!(world.tied_after(0, (9, set(&[1, 6])), 3), left, "5 was chosen");
            let left = Some(vec![1, 512, 521]);
            assert_eq!(world.tied_after(0, (9, set(&[1])), 0), left, "another one left");
            assert_eq!(world.tied_after(2, (9, set(&[0])), 0), Some(vec![1, 512]));
            assert_eq!(world.tied_after(2, (9, set(&[0, 3])), 0), None, "one came");
            assert_eq!(world.tied_after(2, (9, set(&[0])), 0), None, "hashes were not there yet");
            world.settle(2, (9, set(&[0, 3])));
            assert_eq!(world.tied_after(2, (9, set(&[3, 4])), 0), None, "one came and one left");
            world.settle(0, (8, set(&[1])));
            assert_eq!(world.tied_after(0, (9, set(&[1])), 0), None, "a shard came");
            world.settle(0, (10, set(&[7, 8])));
            assert_eq!(world.tied_after(0, (11, set(&[8])), 0), Some(vec![8]), "another total");
            let nodes = NodeTable { version: 2, ..(*world.snapshot.shards[0].nodes).clone() };
            world.snapshot.shards.amend(0).nodes = Arc::new(nodes);
            assert_eq!(world.tied_after(0, (11, set(&[8])), 0), None, "rows may hold other nodes");
            assert_eq!(world.tied_after(0, (9, set(&[8])), 0), None, "two shards again");
        }
    }

    /// Compares with a ranking of all shards, while shards get rows and totals and lose them one by one.
    #[test]
    fn shard_by_shard_is_as_all_at_once() {
        let (mut one, mut all) = (World::new(40, false), World::new(40, true));
        let mut n_cached = 0;
        for step in 0..4_000_usize {
            let shard = step * 7 % 40;
            let (total, rows) = one.shards[shard];
            let best = match step % 100 {
                0..40 => ((step / 100 % 3) as i32, set(&[step % 5, 5 + step % 7, 12 + step % 11])),
                40..50 => (total, rows),
                _ if step % 13 == 0 => (i32::MIN, RowSet::EMPTY),
                _ if rows.len() > 1 => (total, rows.without(&set(&[rows.iter().next().unwrap()]))),
                _ => (total, rows),
            };
            let tied = [&mut one, &mut all].map(|world| world.tied_after(shard, best, 0));
            // Each is right by itself; that nothing is cached may differ.
            if let [Some(one), Some(all)] = &tied {
                assert_eq!(one, all, "step {step}");
                n_cached += 1;
            }
        }
        assert!(n_cached > 100, "{n_cached} were cached");
    }
}
