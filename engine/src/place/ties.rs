//! Ties: the name hashes of the best rows in one column, so that the seeded choice among them reads nothing else.
//!
//! This pays off for many decisions of one kind in a row: their best rows are those of the last time, perhaps without
//! one. Any other change is detected, and the hashes are collected again after several decisions without one.

use crate::kernel::{MANY_TIED, N_GROUPS, TieGroup};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;

/// The best rows by shard; a shard without any is not listed.
pub(crate) type BestRows = Vec<(usize, RowSet)>;

/// Number of decisions in a row with nearly the same best rows after which the hashes are collected: that costs as much as
/// several choices without them.
pub(super) const N_STEADY: u32 = 8;

/// Cached data on the best rows of an evaluation.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// How the best rows differ from those of the last time.
    change: Change,
    /// The rows in one group, or many rows in the groups of their hashes; empty until they are collected.
    groups: Vec<Group>,
    /// The group and the position in it of the row that was chosen last.
    chosen: (usize, usize),
    /// Number of decisions with nearly the same best rows, up to now.
    n_steady: u32,
}

/// Some rows, and the hashes of their names in the same order, which is arbitrary.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) hashes: Vec<u32>,
    pub(crate) rows: Vec<NodeRow>,
}

/// How the best rows differ from those of the last time.
#[derive(Copy, Clone, Debug, Default)]
enum Change {
    #[default]
    None,
    /// Only this row left.
    Left(NodeRow),
    /// There are other changes.
    Other,
}

impl Ties {
    /// Notes that other rows of a shard are the best ones than before.
    pub(crate) fn note(&mut self, shard: usize, then: &RowSet, now: &RowSet) {
        if then == now {
            return;
        }
        let left = then.without(now);
        let is_one = left.len() == 1 && now.len() + 1 == then.len();
        self.change = match (self.change, left.iter().next()) {
            (Change::None, Some(row)) if is_one => Change::Left(NodeRow::new(shard, row)),
            _ => Change::Other,
        };
    }

    /// Notes that the best rows may hold other nodes, or are others altogether.
    pub(crate) fn disturb(&mut self) {
        self.change = Change::Other;
    }

    /// The rows with their hashes, if they are cached and up to date. `n_rows` is the number of all best rows.
    pub(crate) fn take_in(
        &mut self,
        best: &BestRows,
        n_rows: u32,
        snapshot: &Snapshot,
    ) -> Option<Tied<'_>> {
        match std::mem::take(&mut self.change) {
            Change::None => {}
            Change::Left(row) => self.remove(row, snapshot),
            Change::Other => {
                self.groups.clear();
                self.n_steady = 0;
                return None;
            }
        }
        self.n_steady = self.n_steady.saturating_add(1);
        if self.groups.is_empty() && self.n_steady < N_STEADY {
            return None;
        }
        let n_groups = if n_rows < MANY_TIED { 1 } else { N_GROUPS as usize };
        if self.groups.len() != n_groups {
            self.gather((best, n_rows), n_groups, snapshot);
        }
        debug_assert_eq!(
            self.groups.iter().map(|group| group.rows.len()).sum::<usize>(),
            n_rows as usize,
            "every best row is cached"
        );
        Some(Tied { groups: &self.groups, chosen: &mut self.chosen })
    }

    /// Removes a row, if rows are there; mostly it is the one that was chosen last.
    fn remove(&mut self, row: NodeRow, snapshot: &Snapshot) {
        let (group, at) = self.chosen;
        let is_chosen = self.groups.get(group).and_then(|group| group.rows.get(at)) == Some(&row);
        let found = match (is_chosen, self.groups.len()) {
            (true, _) => Some(self.chosen),
            (false, 0) => None,
            (false, n_groups) => {
                let hash = snapshot.shards[row.shard()].nodes.name_hash[row.row()];
                let group = group_among(n_groups, hash);
                let at = self.groups[group].rows.iter().position(|known| *known == row);
                at.map(|at| (group, at))
            }
        };
        if let Some((group, at)) = found {
            self.groups[group].hashes.swap_remove(at);
            self.groups[group].rows.swap_remove(at);
        }
    }

    fn gather(&mut self, (best, n_rows): (&BestRows, u32), n_groups: usize, snapshot: &Snapshot) {
        // A quarter more than the average has room for nearly every group.
        let room = n_rows as usize / n_groups;
        let room = if n_groups == 1 { room } else { room + room / 4 };
        self.groups.clear();
        self.groups.resize_with(n_groups, || Group {
            hashes: Vec::with_capacity(room),
            rows: Vec::with_capacity(room),
        });
        for (shard, rows) in best {
            let of_shard = &snapshot.shards[*shard].nodes.name_hash;
            for row in rows.iter() {
                let group = &mut self.groups[group_among(n_groups, of_shard[row])];
                group.hashes.push(of_shard[row]);
                group.rows.push(NodeRow::new(*shard, row));
            }
        }
    }
}

/// The position of a hash's group: all are in one group, or each in its own.
fn group_among(n_groups: usize, name_hash: u32) -> usize {
    if n_groups == 1 { 0 } else { TieGroup::of(name_hash).index() }
}

/// The best rows with the hashes of their names.
pub(crate) struct Tied<'a> {
    /// All in one group, or in [`N_GROUPS`] groups, if there are at least [`MANY_TIED`].
    pub(crate) groups: &'a [Group],
    /// To be set to the group and the position of the chosen row.
    pub(crate) chosen: &'a mut (usize, usize),
}
