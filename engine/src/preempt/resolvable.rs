//! Resolvable: the nodes where evicting pods might help, those of status `Unschedulable`. Rule: S-PRE-5.

use crate::place::promised::refusals_with_promised;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::StatusCode;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// The resolvable rows of each shard, in the shards' order.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolvable(Vec<RowSet>);

impl Resolvable {
    /// Finds resolvable rows after filtering found no feasible node.
    ///
    /// Cost: as filtering once.
    pub(super) fn find(plan: &Filtering<'_, '_>) -> Resolvable {
        let shards = plan.snapshot().shards.iter();
        Resolvable(shards.map(|shard| of_shard(plan, shard)).collect())
    }

    /// No resolvable rows, for a pod that PreFilter refused: its status, which is unresolvable, applies to every node.
    pub(super) fn none(plan: &Plan<'_>) -> Resolvable {
        Resolvable(vec![RowSet::EMPTY; plan.snapshot().shards.len()])
    }

    /// These rows of each shard.
    #[cfg(test)]
    pub(super) fn of(rows: Vec<RowSet>) -> Resolvable {
        Resolvable(rows)
    }

    pub(super) fn by_shard(&self) -> &[RowSet] {
        &self.0
    }

    pub(super) fn contains(&self, row: NodeRow) -> bool {
        self.0.get(row.shard()).is_some_and(|rows| rows.contains(row.row()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|rows| rows.len() as usize).sum()
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = NodeRow> + '_ {
        let shards = self.0.iter().enumerate();
        shards.flat_map(|(shard, rows)| rows.iter().map(move |row| NodeRow::new(shard, row)))
    }
}

fn of_shard(plan: &Filtering<'_, '_>, shard: &Shard) -> RowSet {
    let mut rows = plan.candidates(shard);
    let mut resolvable = RowSet::EMPTY;
    for (row, (_, refusal)) in refusals_with_promised(plan, shard, &rows) {
        if refusal.code == StatusCode::Unschedulable {
            resolvable.insert(row);
        }
        rows.remove(row);
    }
    for filter in plan.filters() {
        let before = rows;
        (filter.run)(plan, shard, &mut rows);
        let refused = before.without(&rows);
        if !refused.is_empty() {
            resolvable.union(&filter.resolvable(plan, shard, &refused));
        }
    }
    resolvable
}
