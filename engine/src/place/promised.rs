//! Promised: nodes that pods of no lower priority are nominated to, and the two-pass filter there. Rules: S-NOM-1, S-NOM-2, S-CYC-3.

use smallvec::SmallVec;

use super::Plan;
use crate::dry_run::{DryRun, DryRuns, Refused};
use crate::model::Pod;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;
use crate::snapshot::{NodeRow, Snapshot};

/// Rows, in order, and who is nominated to each, in insertion order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promised<'a>(Vec<(NodeRow, SmallVec<[&'a Pod; 1]>)>);

impl<'a> Promised<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, pod: &Pod) -> Promised<'a> {
        let mut rows = Vec::new();
        for (node, nominated) in snapshot.nominations.iter() {
            let counts =
                |other: &&Pod| other.priority() >= pod.priority() && !other.is_same_as(pod);
            let counted: SmallVec<[&Pod; 1]> = nominated.iter().filter(counts).collect();
            if let Some(row) = snapshot.row_of(node).filter(|_| !counted.is_empty()) {
                rows.push((row, counted));
            }
        }
        rows.sort_unstable_by_key(|(row, _)| *row);
        Promised(rows)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pods that count on a row.
    pub(crate) fn on(&self, row: NodeRow) -> &[&'a Pod] {
        match self.0.binary_search_by_key(&row, |(row, _)| *row) {
            Ok(at) => &self.0[at].1,
            Err(_) => &[],
        }
    }

    /// The rows of a shard that are promised.
    pub(crate) fn of_shard(&self, shard: usize) -> RowSet {
        let from = self.0.partition_point(|(row, _)| row.shard() < shard);
        let here = self.0[from..].iter().take_while(|(row, _)| row.shard() == shard);
        here.map(|(row, _)| row.row()).collect()
    }
}

/// The row of the node that the pod itself is nominated to, if that is in the cluster.
pub(crate) fn promised_row(plan: &Plan<'_>) -> Option<NodeRow> {
    let (snapshot, pod) = (plan.prepared.snapshot(), plan.prepared.pod());
    let node = match pod.nominated_node_name() {
        Some(name) => plan.prepared.names().get(name),
        None => snapshot.nominations.node_of(pod),
    };
    snapshot.row_of(node?)
}

/// The same, where the node still takes the pod: then no other is looked at (S-CYC-3, S-PRE-26).
pub(crate) fn kept_promise(plan: &Plan<'_>) -> Option<NodeRow> {
    let row = promised_row(plan)?;
    let shard = &plan.prepared.snapshot().shards[row.shard()];
    let mut rows: RowSet = [row.row()].into_iter().collect();
    for filter in plan.filters() {
        (filter.run)(&plan.prepared, shard, &mut rows);
    }
    rows.subtract(&refused_with_promised(plan, shard, &rows));
    (!rows.is_empty()).then_some(row)
}

/// The rows among `rows`, which every filter passes, that the first of the two passes refuses: with those pods there.
pub(crate) fn refused_with_promised(plan: &Plan<'_>, shard: &Shard, rows: &RowSet) -> RowSet {
    let promised = promised_among(plan, shard, rows);
    if promised.is_empty() {
        return RowSet::EMPTY;
    }
    let runs = DryRuns::new(plan);
    promised.iter().filter(|row| !with_promised(plan, &runs, shard, *row).passes(&[])).collect()
}

/// The rows among `rows` that the first pass refuses, each with the filter that fails first.
pub(crate) fn refusals_with_promised(
    plan: &Plan<'_>,
    shard: &Shard,
    rows: &RowSet,
) -> Vec<(usize, Refused)> {
    let promised = promised_among(plan, shard, rows);
    if promised.is_empty() {
        return Vec::new();
    }
    let runs = DryRuns::new(plan);
    let refusal = |row| Some((row, with_promised(plan, &runs, shard, row).refusal(&[])?));
    promised.iter().filter_map(refusal).collect()
}

fn promised_among(plan: &Plan<'_>, shard: &Shard, rows: &RowSet) -> RowSet {
    if plan.promised().is_empty() {
        return RowSet::EMPTY;
    }
    let mut promised = plan.promised().of_shard(shard.index);
    promised.intersect(rows);
    promised
}

fn with_promised<'p, 'a>(
    plan: &Plan<'_>,
    runs: &'p DryRuns<'p, 'a>,
    shard: &'p Shard,
    row: usize,
) -> DryRun<'p, 'a> {
    let mut run = runs.on(shard, row);
    plan.promised().on(NodeRow::new(shard.index, row)).iter().for_each(|pod| run.add(pod));
    run
}
