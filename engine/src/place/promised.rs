//! Promised: the two-pass filtering of nodes to which pods of no lower priority are nominated. Rules: S-NOM-1, S-NOM-2,
//! S-CYC-3.

use crate::dry_run::{DryRun, DryRuns, Refused};
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// The row of the node that the pod itself is nominated to, if that is in the cluster.
pub(crate) fn promised_row(plan: &Plan<'_>) -> Option<NodeRow> {
    let (snapshot, pod) = (plan.snapshot(), plan.pod());
    let node = match pod.nominated_node_name() {
        Some(name) => plan.names().get(name),
        None => snapshot.nominations.node_of(pod),
    };
    snapshot.row_of(node?)
}

/// The nominated node, if it still takes the pod: then no other node is considered (S-CYC-3, S-PRE-26).
pub(crate) fn kept_promise(plan: &Filtering<'_, '_>) -> Option<NodeRow> {
    let row = promised_row(plan)?;
    let shard = &plan.snapshot().shards[row.shard()];
    let mut rows: RowSet = [row.row()].into_iter().collect();
    for filter in plan.filters() {
        (filter.run)(plan, shard, &mut rows);
    }
    rows.subtract(&refused_with_promised(plan, shard, &rows));
    rows.subtract(&plan.devices().failed_rows(shard));
    (!rows.is_empty()).then_some(row)
}

/// The rows among `rows`, all of which pass every filter, that the first of the two passes refuses: the one with the
/// nominated pods.
pub(crate) fn refused_with_promised(
    plan: &Filtering<'_, '_>,
    shard: &Shard,
    rows: &RowSet,
) -> RowSet {
    let promised = promised_among(plan, shard, rows);
    if promised.is_empty() {
        return RowSet::EMPTY;
    }
    let runs = DryRuns::new(plan);
    promised.iter().filter(|row| !with_promised(plan, &runs, shard, *row).passes(&[])).collect()
}

/// The rows among `rows` that the first pass refuses, each with the filter that fails first.
pub(crate) fn refusals_with_promised(
    plan: &Filtering<'_, '_>,
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
