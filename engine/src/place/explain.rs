//! Explain: a decision explained in full, with the same filters and scores that make it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::decision::{Explanation, NodeVerdict, Outcome, PluginScore, Verdict};
use super::normalized::Normalized;
use super::promised::{kept_promise, refusals_with_promised};
use super::{Evaluation, before_filtering, decide, remedy};
use crate::error::{EngineError, check_wanted};
use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::intern::Interner;
use crate::place::ranking::Feasible;
use crate::plan::Plan;
use crate::plan::counted::{Filtering, Scoring};
use crate::plan::request::TieBreak;
use crate::plugin::Plugin;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::score::normalize::Extent;
use crate::snapshot::shard::Shard;

/// The decision and the verdict on each node. Cost: a pass over the whole cluster; several for a pod that fits nowhere.
///
/// `versions` is the cluster's, for the forks on which remedies are tried. `cancelled` is called once for each shard,
/// score and remedy.
pub(crate) fn explain(
    plan: &mut Plan<'_>,
    tie_break: TieBreak,
    versions: &Arc<AtomicU64>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Explanation, EngineError> {
    let check_wanted = || check_wanted(cancelled);
    check_wanted()?;
    let mut evaluation = Evaluation::default();
    let decision = decide(plan, &mut evaluation, tie_break)?.decision;
    if before_filtering(plan)?.is_some() {
        return Ok(Explanation {
            decision,
            nodes: Vec::new(),
            best: Vec::new(),
            remedies: Vec::new(),
        });
    }
    plan.scoring(&mut evaluation, |plan, _| {
        let nodes = account(plan, check_wanted)?;
        let is_unschedulable = matches!(decision.outcome, Outcome::Unschedulable(_));
        let remedies =
            if is_unschedulable { remedy::remedies(plan, versions, cancelled) } else { Vec::new() };
        check_wanted()?;
        Ok(Explanation { best: best(&nodes), decision, nodes, remedies })
    })
}

/// The verdict on every node, by name.
fn account(
    plan: &Scoring<'_, '_>,
    check_wanted: impl Fn() -> Result<(), EngineError>,
) -> Result<Vec<NodeVerdict>, EngineError> {
    let mut nodes = Vec::with_capacity(plan.n_nodes());
    let shards = plan.snapshot().shards.iter();
    let feasible = match kept_promise(plan) {
        Some(kept) => Some(Feasible::only(kept, shards.len())),
        None => {
            let rows = shards.map(|shard| {
                check_wanted().map(|()| account_for_refusals(plan, shard, &mut nodes))
            });
            Feasible::of(rows.collect::<Result<Vec<_>, _>>()?)
        }
    };
    if let Some(feasible) = &feasible {
        // An attempt does not score a single feasible node, so an invalid preference does not make it fail (S-CYC-6).
        if plan.check_scoring().is_ok() {
            account_for_scores(plan, feasible, &mut nodes, check_wanted)?;
        } else {
            let unscored = rows_of(feasible).map(|row| (row, Vec::new()));
            nodes.extend(unscored.filter_map(|(row, scores)| feasible_node(plan, row, scores)));
        }
    }
    nodes.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    Ok(nodes)
}

/// Adds the verdict on every refused node of a shard; returns the feasible rows.
fn account_for_refusals(
    plan: &Filtering<'_, '_>,
    shard: &Shard,
    nodes: &mut Vec<NodeVerdict>,
) -> RowSet {
    let mut rows = plan.candidates(shard);
    for row in shard.nodes.rows.without(&rows).iter() {
        let reason = Reason::PreFilterNodeAffinity;
        let reasons = vec![reason.text(plan.names()).into_owned()];
        push(nodes, shard, row, Verdict::Rejected { plugin: None, code: reason.code(), reasons });
    }
    for (row, (plugin, refusal)) in refusals_with_promised(plan, shard, &rows) {
        push(nodes, shard, row, rejected(plan.names(), Some(plugin), &refusal));
        rows.remove(row);
    }
    for filter in plan.filters() {
        let before = rows;
        (filter.run)(plan, shard, &mut rows);
        for row in before.without(&rows).iter() {
            let refusal = filter.refusal(plan, shard, row);
            let verdict = rejected(plan.names(), Some(filter.plugin), &refusal);
            push(nodes, shard, row, verdict);
        }
    }
    rows
}

/// The verdict of a refusal, with its reasons as text.
pub(crate) fn rejected(names: &Interner, plugin: Option<Plugin>, refusal: &Refusal) -> Verdict {
    Verdict::Rejected { plugin, code: refusal.code, reasons: refusal.texts(names) }
}

fn push(nodes: &mut Vec<NodeVerdict>, shard: &Shard, row: usize, verdict: Verdict) {
    if let Some(node) = shard.nodes.node(row) {
        nodes.push(NodeVerdict { node: node.facts().name.clone(), verdict });
    }
}

/// Adds the verdict on every feasible node: each plugin's score in kube-scheduler's order (S-PLG-5).
fn account_for_scores(
    plan: &Scoring<'_, '_>,
    feasible: &Feasible,
    nodes: &mut Vec<NodeVerdict>,
    check_wanted: impl Fn() -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut by_row: Vec<(NodeRow, Vec<PluginScore>)> =
        rows_of(feasible).map(|row| (row, Vec::new())).collect();
    for (plugin, _) in &plan.policy().spec().score {
        check_wanted()?;
        let Some(scored) = scores_of(plan, *plugin, feasible) else {
            continue;
        };
        for ((_, scores), (raw, weighted)) in by_row.iter_mut().zip(scored) {
            scores.push(PluginScore { plugin: *plugin, raw, weighted });
        }
    }
    nodes.extend(by_row.into_iter().filter_map(|(row, scores)| feasible_node(plan, row, scores)));
    Ok(())
}

/// A plugin's raw and weighted score of each feasible row; `None` where it contributes nothing.
fn scores_of(
    plan: &Scoring<'_, '_>,
    plugin: Plugin,
    feasible: &Feasible,
) -> Option<Vec<(i64, i64)>> {
    let mut cluster = plan.cluster_scores().iter();
    if let Some((score, weight)) = cluster.find(|(score, _)| score.plugin == plugin) {
        let scored = Normalized::of(plan, *score, *weight, feasible)?;
        return Some(rows_of(feasible).map(|r| scored.of_row(r.shard(), r.row())).collect());
    }
    let mut by_row = plan.plain_scores().iter().chain(plan.normalized_scores());
    let (score, weight) = by_row.find(|(score, _)| score.plugin == plugin)?;
    let mut raw = Vec::new();
    for (rows, shard) in feasible.by_shard().iter().zip(&plan.snapshot().shards) {
        let mut column = [0; ROWS];
        score.add_rows(plan, shard, rows, &mut column, 1);
        raw.extend(rows.iter().map(|row| i64::from(column[row])));
    }
    let highest = raw.iter().copied().max().unwrap_or(0);
    let extent = Extent { lowest: 0, highest };
    let weighted = |raw| (raw, i64::from(*weight) * score.normalize.apply(raw, extent));
    Some(raw.into_iter().map(weighted).collect())
}

fn rows_of(feasible: &Feasible) -> impl Iterator<Item = NodeRow> + '_ {
    let shards = feasible.by_shard().iter().enumerate();
    shards.flat_map(|(shard, rows)| rows.iter().map(move |row| NodeRow::new(shard, row)))
}

fn feasible_node(plan: &Plan<'_>, row: NodeRow, scores: Vec<PluginScore>) -> Option<NodeVerdict> {
    let total = scores.iter().map(|score| score.weighted).sum();
    let node = plan.snapshot().node(row)?.facts().name.clone();
    Some(NodeVerdict { node, verdict: Verdict::Feasible { scores, total } })
}

/// The feasible nodes of the highest total, sorted like `nodes`.
fn best(nodes: &[NodeVerdict]) -> Vec<Arc<str>> {
    let total = |node: &NodeVerdict| match node.verdict {
        Verdict::Feasible { total, .. } => Some(total),
        Verdict::Rejected { .. } => None,
    };
    let highest = nodes.iter().filter_map(total).max();
    nodes
        .iter()
        .filter(|node| highest.is_some() && total(node) == highest)
        .map(|node| node.node.clone())
        .collect()
}
