//! One pass: whether nodes could take a pod as cluster-autoscaler checks it: PreFilter and Filter, each once, without
//! nominated pods, gates, scores or preemption; a cordoned node never passes, whatever the pod tolerates. Rule:
//! S-CAS-1.

use std::sync::Arc;

use crate::error::EngineError;
use crate::filter::reason::Reason;
use crate::filter::{PreFilterFailure, Refusal};
use crate::place::{Evaluation, gate, pre_filter_refusal};
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::{Plugin, StatusCode};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::shard::Shard;

/// Why a pod does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Misfit {
    /// The first plugin that refuses it, in the policy's order.
    pub plugin: Plugin,
    /// Whether preemption might help.
    pub code: StatusCode,
    /// kube-scheduler's reasons, in the order in which the plugin checks.
    pub reasons: Arc<[String]>,
}

/// The rows that pass, by shard.
pub(crate) fn feasible(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
) -> Result<Vec<RowSet>, EngineError> {
    let n_shards = plan.snapshot().shards.len();
    if pre_filter(plan)?.is_some() {
        return Ok(vec![RowSet::EMPTY; n_shards]);
    }
    Ok(plan.filtering(evaluation, |plan, evaluation| {
        let shards = plan.snapshot().shards.iter();
        shards.map(|shard| passing(plan, evaluation, shard)).collect()
    }))
}

/// The first row in this order that passes (S-CAS-2). Cost: a step for each row up to that one, and the filters on each
/// of their shards.
pub(crate) fn first_fit(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    order: impl IntoIterator<Item = NodeRow>,
) -> Result<Option<NodeRow>, EngineError> {
    if pre_filter(plan)?.is_some() {
        return Ok(None);
    }
    Ok(plan.filtering(evaluation, |plan, evaluation| {
        let shards = &plan.snapshot().shards;
        let mut known: Vec<Option<RowSet>> = vec![None; shards.len()];
        order.into_iter().find(|row| {
            let Some(shard) = shards.get(row.shard()) else { return false };
            let rows = known[shard.index].get_or_insert_with(|| passing(plan, evaluation, shard));
            rows.contains(row.row())
        })
    }))
}

/// Whether one row passes. Cost: the filters on that row alone.
pub(crate) fn fits(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    row: NodeRow,
) -> Result<bool, EngineError> {
    if pre_filter(plan)?.is_some() {
        return Ok(false);
    }
    Ok(plan.filtering(evaluation, |plan, _| match candidate(plan, row) {
        Some(shard) => {
            let mut rows = row.of_shard(shard.index);
            plan.filters().iter().for_each(|filter| {
                if !rows.is_empty() {
                    (filter.run)(plan, shard, &mut rows);
                }
            });
            !rows.is_empty()
        }
        None => false,
    }))
}

/// Why one row does not pass; `None` where it does. The row must hold a node.
pub(crate) fn why_not(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    row: NodeRow,
) -> Result<Option<Misfit>, EngineError> {
    if let Some(misfit) = pre_filter(plan)? {
        return Ok(Some(misfit));
    }
    Ok(plan.filtering(evaluation, |plan, _| {
        let (plugin, refusal) = row_refusal(plan, row)?;
        let reasons = refusal.texts(plan.names());
        Some(Misfit { plugin, code: refusal.code, reasons })
    }))
}

/// Whether one row does not pass, for this reason. The row must hold a node.
pub(crate) fn is_refused_for(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    row: NodeRow,
    reason: Reason,
) -> Result<bool, EngineError> {
    if pre_filter(plan)?.is_some() {
        return Ok(false);
    }
    Ok(plan.filtering(evaluation, |plan, _| {
        row_refusal(plan, row).is_some_and(|(_, refusal)| refusal.reasons.contains(&reason))
    }))
}

/// The first plugin that refuses a row, and why. No PreFilter refuses the pod as a whole.
fn row_refusal(plan: &Filtering<'_, '_>, row: NodeRow) -> Option<(Plugin, Refusal)> {
    let shard = &plan.snapshot().shards[row.shard()];
    let whole = |reason: Reason| Some((reason.plugin(), Refusal::of(reason)));
    if !plan.candidates(shard).contains(row.row()) {
        return whole(Reason::PreFilterNodeAffinity);
    }
    if shard.nodes.unschedulable.contains(row.row()) {
        return whole(Reason::NodeUnschedulable);
    }
    plan.filters().iter().find_map(|filter| {
        let mut rows = row.of_shard(shard.index);
        (filter.run)(plan, shard, &mut rows);
        let refuse = || filter.refusal(plan, shard, row.row());
        rows.is_empty().then(|| (filter.plugin, refuse()))
    })
}

/// Why the pod fits on no node at all; an error where the attempt would end in one (S-PF-2, S-PF-4).
pub(crate) fn pre_filter(plan: &Plan<'_>) -> Result<Option<Misfit>, EngineError> {
    Ok(pre_filter_refusal(plan)?.map(|(plugin, text)| Misfit {
        plugin,
        code: StatusCode::UnschedulableAndUnresolvable,
        reasons: [text].into(),
    }))
}

/// Why every scheduling attempt of the pod fails on any node: its gates, a plugin that is not implemented, or a
/// PreFilter that refuses it or fails.
pub(crate) fn refusal(plan: &Plan<'_>) -> Option<Misfit> {
    let code = StatusCode::UnschedulableAndUnresolvable;
    let misfit = |plugin, text| Some(Misfit { plugin, code, reasons: [text].into() });
    if let Some((plugin, reason)) = gate(plan) {
        return misfit(plugin, reason);
    }
    let (plugin, failure) = plan.pre_filter_failure()?;
    match failure {
        PreFilterFailure::Refused(text) | PreFilterFailure::Error(text) => misfit(plugin, text),
    }
}

/// Whether pods that are added to nodes can only make nodes infeasible, never feasible: a node that has refused the pod
/// refuses it from then on.
pub(crate) fn only_loses(plan: &Plan<'_>) -> bool {
    let demand = plan.demand();
    demand.hard.is_empty()
        && demand.affinity.sums.is_empty()
        && plan.volumes().found().is_none()
        && plan.devices().found().is_none()
}

fn passing(plan: &Filtering<'_, '_>, evaluation: &mut Evaluation, shard: &Shard) -> RowSet {
    evaluation.passing(plan, shard).without(&shard.nodes.unschedulable)
}

/// The shard of a row, if the row is a candidate of the filters and not cordoned.
fn candidate<'a>(plan: &Plan<'a>, row: NodeRow) -> Option<&'a Arc<Shard>> {
    let snapshot: &'a Snapshot = plan.snapshot();
    let shard = snapshot.shards.get(row.shard())?;
    let candidates = plan.candidates(shard).without(&shard.nodes.unschedulable);
    candidates.contains(row.row()).then_some(shard)
}
