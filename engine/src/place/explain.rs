//! Explain: a decision explained in full, with the same filters and scores that make it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::decision::{Explanation, NodeVerdict, Outcome, PluginScore, Unschedulable, Verdict};
use super::normalized::Normalized;
use super::promised::{kept_promise, refusals_with_promised};
use super::{Evaluation, before_filtering, decide, remedy};
use crate::account::comparison::{Comparison, NodeAccount, ScoreAccount};
use crate::account::{Accountant, basis};
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

/// Whom and what an explanation is for.
pub(crate) struct ExplainOptions<'o> {
    /// Whether everything known about the node of this name is wanted.
    pub(crate) is_detailed: &'o dyn Fn(&str) -> bool,
    /// Called once for each shard, score and remedy; once it returns true, the explanation ends with an error.
    pub(crate) cancelled: &'o dyn Fn() -> bool,
}

impl ExplainOptions<'_> {
    fn check_wanted(&self) -> Result<(), EngineError> {
        check_wanted(self.cancelled)
    }
}

/// A verdict with the account of its node.
type Told = (NodeVerdict, NodeAccount);

/// The decision and the verdict on each node. Cost: a pass over the whole cluster; several for a pod that fits nowhere.
///
/// `versions` is the cluster's, for the forks on which remedies are tried.
pub(crate) fn explain(
    plan: &mut Plan<'_>,
    tie_break: TieBreak,
    versions: &Arc<AtomicU64>,
    options: &ExplainOptions<'_>,
) -> Result<Explanation, EngineError> {
    options.check_wanted()?;
    let mut evaluation = Evaluation::default();
    let decision = decide(plan, &mut evaluation, tie_break)?.decision;
    if let Some(outcome) = before_filtering(plan)? {
        let remedies = match outcome {
            Outcome::Unschedulable(Unschedulable { pre_filter: Some(_), .. }) => {
                remedy::of_pre_filter(plan, versions, options.cancelled)
            }
            _ => Vec::new(),
        };
        options.check_wanted()?;
        let (nodes, accounts, best) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Explanation { decision, nodes, accounts, best, remedies });
    }
    plan.scoring(&mut evaluation, |plan, _| {
        let (nodes, accounts): (Vec<_>, Vec<_>) = account(plan, options)?.into_iter().unzip();
        let is_unschedulable = matches!(decision.outcome, Outcome::Unschedulable(_));
        let remedies = if is_unschedulable {
            remedy::remedies(plan, versions, options.cancelled)
        } else {
            Vec::new()
        };
        options.check_wanted()?;
        Ok(Explanation { best: best(&nodes), decision, nodes, accounts, remedies })
    })
}

/// The verdict on every node, by name.
fn account(plan: &Scoring<'_, '_>, options: &ExplainOptions<'_>) -> Result<Vec<Told>, EngineError> {
    let mut accountant = Accountant::new(plan);
    let mut nodes = Vec::with_capacity(plan.n_nodes());
    let shards = &plan.snapshot().shards;
    let feasible = match kept_promise(plan) {
        Some(kept) => Some(Feasible::only(kept, shards.len())),
        None => {
            let mut refusals = Refusals { plan, accountant: &mut accountant, nodes: &mut nodes };
            let rows =
                shards.iter().map(|shard| options.check_wanted().map(|()| refusals.of(shard)));
            Feasible::of(rows.collect::<Result<Vec<_>, _>>()?)
        }
    };
    if let Some(feasible) = &feasible {
        // Several feasible nodes are scored to choose one, which fails for a preference that does not parse. A single
        // node is scored only to be explained, so such a preference does not make it fail (S-CYC-6).
        if plan.check_scoring().is_ok() {
            account_for_scores(plan, feasible, &mut nodes, options)?;
        } else {
            let unscored = rows_of(feasible).map(|row| (row, Vec::new()));
            nodes.extend(unscored.filter_map(|(row, scores)| feasible_node(plan, row, scores)));
        }
    }
    for (verdict, account) in &mut nodes {
        if !(options.is_detailed)(&verdict.node) {
            account.scores = Vec::new();
            continue;
        }
        options.check_wanted()?;
        let row = plan.names().get(&verdict.node).and_then(|it| plan.snapshot().row_of(it));
        let Some(row) = row else { continue };
        let shard = &plan.snapshot().shards[row.shard()];
        account.checks = accountant.checks(shard, row.row());
        for score in &mut account.scores {
            score.basis = basis(plan, score.plugin, shard, row.row());
        }
    }
    nodes.sort_unstable_by(|(a, _), (b, _)| a.node.cmp(&b.node));
    Ok(nodes)
}

/// Collects the verdicts on refused nodes.
struct Refusals<'r, 'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    accountant: &'r mut Accountant<'p, 'a>,
    nodes: &'r mut Vec<Told>,
}

impl Refusals<'_, '_, '_> {
    /// Adds the verdict on every refused node of a shard; returns the feasible rows.
    fn of(&mut self, shard: &Shard) -> RowSet {
        let plan = self.plan;
        let mut rows = plan.candidates(shard);
        for row in shard.nodes.rows.without(&rows).iter() {
            let reason = Reason::PreFilterNodeAffinity;
            let reasons = vec![reason.text(plan.names()).into_owned()];
            let verdict = Verdict::Rejected { plugin: None, code: reason.code(), reasons };
            let shortfalls = self.accountant.left_out(shard, row);
            self.push(shard, row, verdict, NodeAccount { shortfalls, ..NodeAccount::default() });
        }
        let sole = refused_once(plan, shard, &rows);
        for (row, (plugin, refusal)) in refusals_with_promised(plan, shard, &rows) {
            let verdict = rejected(plan.names(), Some(plugin), &refusal);
            let account = self.beside_promised(plugin, shard, row, sole.contains(row));
            self.push(shard, row, verdict, account);
            rows.remove(row);
        }
        for filter in plan.filters() {
            let before = rows;
            (filter.run)(plan, shard, &mut rows);
            for row in before.without(&rows).iter() {
                let refusal = filter.refusal(plan, shard, row);
                let verdict = rejected(plan.names(), Some(filter.plugin), &refusal);
                let shortfalls = self.accountant.shortfalls(filter, shard, row);
                let is_sole = sole.contains(row);
                self.push(
                    shard,
                    row,
                    verdict,
                    NodeAccount { shortfalls, is_sole, ..NodeAccount::default() },
                );
            }
        }
        rows
    }

    /// The account of a row that a plugin refuses beside the pods nominated to its node: what that plugin misses without
    /// them, too, or else these pods.
    fn beside_promised(
        &mut self,
        plugin: Plugin,
        shard: &Shard,
        row: usize,
        is_sole: bool,
    ) -> NodeAccount {
        let of_plugin = self.plan.filters().iter().filter(|filter| filter.plugin == plugin);
        let mut shortfalls: Vec<Comparison> =
            of_plugin.flat_map(|filter| self.accountant.shortfalls(filter, shard, row)).collect();
        let is_sole = is_sole && !shortfalls.is_empty();
        if shortfalls.is_empty() {
            shortfalls = self.accountant.nominated(plugin, shard, row);
        }
        NodeAccount { shortfalls, is_sole, ..NodeAccount::default() }
    }

    fn push(&mut self, shard: &Shard, row: usize, verdict: Verdict, account: NodeAccount) {
        if let Some(node) = shard.nodes.node(row) {
            let verdict = NodeVerdict { node: node.facts().name.clone(), verdict };
            self.nodes.push((verdict, account));
        }
    }
}

/// The rows among `candidates` that exactly one filter refuses.
fn refused_once(plan: &Filtering<'_, '_>, shard: &Shard, candidates: &RowSet) -> RowSet {
    let (mut once, mut more) = (RowSet::EMPTY, RowSet::EMPTY);
    for filter in plan.filters() {
        let mut passing = *candidates;
        (filter.run)(plan, shard, &mut passing);
        let refused = candidates.without(&passing);
        let mut again = refused;
        again.intersect(&once);
        more.union(&again);
        once.union(&refused);
    }
    once.without(&more)
}

/// The verdict of a refusal, with its reasons as text.
pub(crate) fn rejected(names: &Interner, plugin: Option<Plugin>, refusal: &Refusal) -> Verdict {
    Verdict::Rejected { plugin, code: refusal.code, reasons: refusal.texts(names) }
}

/// Adds the verdict on every feasible node: each plugin's score in kube-scheduler's order (S-PLG-5).
fn account_for_scores(
    plan: &Scoring<'_, '_>,
    feasible: &Feasible,
    nodes: &mut Vec<Told>,
    options: &ExplainOptions<'_>,
) -> Result<(), EngineError> {
    let mut by_row: Vec<(NodeRow, Vec<Scored>)> =
        rows_of(feasible).map(|row| (row, Vec::new())).collect();
    for (plugin, weight) in &plan.policy().spec().score {
        options.check_wanted()?;
        let Some(scored) = scores_of(plan, *plugin, feasible) else {
            continue;
        };
        for ((_, scores), (raw, normalized)) in by_row.iter_mut().zip(scored) {
            scores.push(Scored { plugin: *plugin, raw, normalized, weight: *weight });
        }
    }
    nodes.extend(by_row.into_iter().filter_map(|(row, scores)| feasible_node(plan, row, scores)));
    Ok(())
}

/// One plugin's score of one node.
struct Scored {
    plugin: Plugin,
    raw: i64,
    normalized: i64,
    weight: i64,
}

/// A plugin's raw and normalized score of each feasible row; `None` where it contributes nothing.
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
    let (score, _) = by_row.find(|(score, _)| score.plugin == plugin)?;
    let mut raw = Vec::new();
    for (rows, shard) in feasible.by_shard().iter().zip(&plan.snapshot().shards) {
        let mut column = [0; ROWS];
        score.add_rows(plan, shard, rows, &mut column, 1);
        raw.extend(rows.iter().map(|row| i64::from(column[row])));
    }
    let highest = raw.iter().copied().max().unwrap_or(0);
    let extent = Extent { lowest: 0, highest };
    Some(raw.into_iter().map(|raw| (raw, score.normalize.apply(raw, extent))).collect())
}

fn rows_of(feasible: &Feasible) -> impl Iterator<Item = NodeRow> + '_ {
    let shards = feasible.by_shard().iter().enumerate();
    shards.flat_map(|(shard, rows)| rows.iter().map(move |row| NodeRow::new(shard, row)))
}

fn feasible_node(plan: &Plan<'_>, row: NodeRow, scored: Vec<Scored>) -> Option<Told> {
    let node = plan.snapshot().node(row)?.facts().name.clone();
    let scores: Vec<PluginScore> = scored
        .iter()
        .map(|Scored { plugin, raw, normalized, weight }| PluginScore {
            plugin: *plugin,
            raw: *raw,
            weighted: weight * normalized,
        })
        .collect();
    let total = scores.iter().map(|score| score.weighted).sum();
    let devices = plan.assigned_devices(row);
    let accounts = scored.into_iter().map(|Scored { plugin, normalized, weight, .. }| {
        ScoreAccount { plugin, normalized, weight, basis: Vec::new() }
    });
    let account = NodeAccount { scores: accounts.collect(), ..NodeAccount::default() };
    Some((NodeVerdict { node, verdict: Verdict::Feasible { scores, total, devices } }, account))
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
