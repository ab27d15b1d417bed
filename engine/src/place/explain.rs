//! Explain: the full account of a decision, over the same filter and score files that take it.

use std::sync::Arc;

use super::decision::{Explanation, NodeVerdict, Outcome, PluginScore, Verdict};
use super::request::TieBreak;
use super::{Evaluation, Plan, before_filtering, decide, remedy};
use crate::error::EngineError;
use crate::filter::reason::Reason;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;
use crate::snapshot::{NodeRow, ROWS};

/// The decision and what each node was to the pod. Cost: the whole cluster.
pub(crate) fn explain(plan: &Plan<'_>, tie_break: TieBreak) -> Result<Explanation, EngineError> {
    let decision = decide(plan, &mut Evaluation::default(), tie_break)?.decision;
    if before_filtering(plan)?.is_some() {
        return Ok(Explanation {
            decision,
            nodes: Vec::new(),
            best: Vec::new(),
            remedies: Vec::new(),
        });
    }
    let mut nodes = Vec::with_capacity(plan.prepared.n_nodes());
    let mut feasible = Vec::new();
    for shard in &plan.prepared.snapshot().shards {
        feasible.push(account_for_refusals(plan, shard, &mut nodes));
    }
    // One feasible node alone is not scored by an attempt, so an invalid preference does not fail it (S-CYC-6).
    if plan.check_scoring().is_ok() {
        account_for_scores(plan, &feasible, &mut nodes);
    } else {
        let unscored = rows_of(&feasible).map(|row| (row, Vec::new()));
        nodes.extend(unscored.filter_map(|(row, scores)| feasible_node(plan, row, scores)));
    }
    nodes.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    let is_unschedulable = matches!(decision.outcome, Outcome::Unschedulable(_));
    let remedies = if is_unschedulable { remedy::remedies(plan) } else { Vec::new() };
    Ok(Explanation { best: best(&nodes), decision, nodes, remedies })
}

/// Adds the verdict on every refused node of a shard; answers the feasible rows.
fn account_for_refusals(plan: &Plan<'_>, shard: &Shard, nodes: &mut Vec<NodeVerdict>) -> RowSet {
    let mut rows = plan.candidates(shard);
    for row in shard.nodes.rows.without(&rows).iter() {
        let reason = Reason::PreFilterNodeAffinity;
        let reasons = vec![reason.text(plan.prepared.names()).into_owned()];
        push(nodes, shard, row, Verdict::Rejected { plugin: None, code: reason.code(), reasons });
    }
    for filter in plan.filters() {
        let before = rows;
        (filter.run)(&plan.prepared, shard, &mut rows);
        for row in before.without(&rows).iter() {
            let refusal = filter.refusal(&plan.prepared, shard, row);
            let reasons = refusal
                .reasons
                .iter()
                .map(|r| r.text(plan.prepared.names()).into_owned())
                .collect();
            push(
                nodes,
                shard,
                row,
                Verdict::Rejected { plugin: Some(filter.plugin), code: refusal.code, reasons },
            );
        }
    }
    rows
}

fn push(nodes: &mut Vec<NodeVerdict>, shard: &Shard, row: usize, verdict: Verdict) {
    if let Some(node) = shard.nodes.node(row) {
        nodes.push(NodeVerdict { node: node.facts().name.clone(), verdict });
    }
}

/// Adds the verdict on every feasible node: each plugin's score in kube-scheduler's order (S-PLG-5).
fn account_for_scores(plan: &Plan<'_>, feasible: &[RowSet], nodes: &mut Vec<NodeVerdict>) {
    let mut by_row: Vec<(NodeRow, Vec<PluginScore>)> =
        rows_of(feasible).map(|row| (row, Vec::new())).collect();
    for (plugin, _) in &plan.prepared.policy().spec().score {
        let all = plan.plain_scores().iter().chain(plan.normalized_scores());
        let Some((score, weight)) = all.copied().find(|(score, _)| score.plugin == *plugin) else {
            continue;
        };
        let mut raw = Vec::with_capacity(by_row.len());
        for (rows, shard) in feasible.iter().zip(&plan.prepared.snapshot().shards) {
            let mut column = [0; ROWS];
            (score.add)(&plan.prepared, shard, rows, &mut column, 1);
            raw.extend(rows.iter().map(|row| i64::from(column[row])));
        }
        let max = raw.iter().copied().max().unwrap_or(0).max(0);
        for ((_, scores), raw) in by_row.iter_mut().zip(raw) {
            let weighted = i64::from(weight) * score.normalize.apply(raw, max);
            scores.push(PluginScore { plugin: *plugin, raw, weighted });
        }
    }
    nodes.extend(by_row.into_iter().filter_map(|(row, scores)| feasible_node(plan, row, scores)));
}

fn rows_of(feasible: &[RowSet]) -> impl Iterator<Item = NodeRow> + '_ {
    let shards = feasible.iter().enumerate();
    shards.flat_map(|(shard, rows)| rows.iter().map(move |row| NodeRow::new(shard, row)))
}

fn feasible_node(plan: &Plan<'_>, row: NodeRow, scores: Vec<PluginScore>) -> Option<NodeVerdict> {
    let total = scores.iter().map(|score| score.weighted).sum();
    let node = plan.prepared.snapshot().node(row)?.facts().name.clone();
    Some(NodeVerdict { node, verdict: Verdict::Feasible { scores, total } })
}

/// The feasible nodes of the highest total; `nodes` is sorted, so this is.
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
