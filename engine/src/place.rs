//! Place: where does this pod go? [`decide`] is the first function to read in this crate.

pub(crate) mod basis;
pub(crate) mod decision;
mod evaluation;
pub(crate) mod explain;
mod feasible;
pub(crate) mod memo;
pub(crate) mod message;
mod normalized;
pub(crate) mod one_pass;
mod plan;
pub(crate) mod promised;
pub(crate) mod ranking;
pub(crate) mod remedy;
pub(crate) mod request;
pub(crate) mod select;
pub(crate) mod skew;
pub(crate) mod survey;
mod ties;

pub(crate) use evaluation::Evaluation;
pub(crate) use explain::explain;
pub(crate) use plan::Plan;

use crate::error::EngineError;
use crate::filter::PreFilterFailure;
use crate::plugin::{Plugin, StatusCode};
use crate::rows::{NodeRow, RowSet};
use basis::Basis;
use decision::{Decision, Outcome, Placement, Unschedulable};
use feasible::Feasible;
use ranking::Ranking;
use request::TieBreak;

/// A decision and, when it is a placement, the row that it fell on.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) chosen: Option<Chosen>,
}

/// The chosen row, and what the choice rests on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) row: NodeRow,
    pub(crate) basis: Basis,
}

/// One scheduling attempt (S-CYC-1 to S-CYC-7, without preemption): gates, PreFilter, the nominated node, Filter, Score, choice.
///
/// `evaluation` may hold what an earlier attempt of the same shape and policy found, or nothing; the answer is the same.
/// Cost: one pass over the shards that changed since, and one visit to each of the others.
pub(crate) fn decide(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
) -> Result<Decided, EngineError> {
    if let Some(outcome) = before_filtering(plan)? {
        return Ok(Decided { decision: plan.decision(outcome), chosen: None });
    }
    if plan.prepared.demand().filters() {
        plan.prepared.count(&mut evaluation.census);
    }
    let decided = match promised::kept_promise(plan) {
        Some(row) => Ok(placed(plan, row, None, 1, 1)),
        None => {
            evaluation.filter(plan);
            filter_and_score(plan, evaluation, tie_break)
        }
    };
    plan.prepared.give_back(&mut evaluation.census);
    decided
}

/// The rest of an attempt whose rows are filtered and whose counts are taken as far as filters need them.
fn filter_and_score(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
) -> Result<Decided, EngineError> {
    if plan.is_by_row() && evaluation.n_feasible() > 1 {
        plan.check_scoring()?;
        let n_feasible = evaluation.n_feasible();
        return Ok(best(plan, evaluation.rank_rows(plan), n_feasible, tie_break));
    }
    let feasible = evaluation.feasible(plan);
    let outcome = match feasible.len() {
        0 => Outcome::Unschedulable(message::unschedulable(plan)),
        1 => return Ok(placed(plan, feasible.first(), None, 1, 1)),
        n_feasible => {
            plan.check_scoring()?;
            if !plan.prepared.demand().filters() {
                plan.prepared.count(&mut evaluation.census);
            }
            return Ok(best(plan, evaluation.rank(plan, &feasible), n_feasible, tie_break));
        }
    };
    Ok(Decided { decision: plan.decision(outcome), chosen: None })
}

/// The row that an attempt chooses where it may look at some rows only, `None` where none of them takes the pod. Gates and the
/// pod's own nomination have no say.
pub(crate) fn decide_among(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
    among: &[RowSet],
) -> Result<Option<NodeRow>, EngineError> {
    if one_pass::pre_filter(plan)?.is_some() {
        return Ok(None);
    }
    plan.prepared.count(&mut evaluation.census);
    evaluation.filter(plan);
    let rows = evaluation.feasible(plan);
    let feasible: Feasible = rows
        .by_shard()
        .iter()
        .enumerate()
        .map(|(shard, rows)| {
            let mut rows = *rows;
            rows.intersect(among.get(shard).unwrap_or(&RowSet::EMPTY));
            rows
        })
        .collect();
    let chosen = match feasible.len() {
        0 => Ok(None),
        1 => Ok(Some(feasible.first())),
        _ => plan
            .check_scoring()
            .map(|()| Some(select::select(plan, evaluation.rank(plan, &feasible), tie_break))),
    };
    plan.prepared.give_back(&mut evaluation.census);
    chosen
}

/// The placement on one of the best rows.
fn best(plan: &Plan<'_>, best: &mut Ranking, n_feasible: u32, tie_break: TieBreak) -> Decided {
    let row = select::select(plan, best, tie_break);
    placed(plan, row, Some(best.total()), n_feasible, best.n_rows())
}

/// Whatever ends an attempt before a node is looked at (S-Q-5, S-CYC-1, S-CYC-2).
pub(crate) fn before_filtering(plan: &Plan<'_>) -> Result<Option<Outcome>, EngineError> {
    if let Some(reason) = gate_reason(plan) {
        return Ok(Some(Outcome::Gated { plugin: Plugin::SchedulingGates, reasons: vec![reason] }));
    }
    plan.check_evaluated()?;
    if plan.prepared.n_nodes() == 0 {
        return Ok(Some(Outcome::Unschedulable(Unschedulable {
            message: "no nodes available to schedule pods".into(),
            reasons: Vec::new(),
            pre_filter: None,
            n_nodes: 0,
        })));
    }
    if let Some((plugin, text)) = pre_filter_refusal(plan)? {
        let refusal = (plugin, StatusCode::UnschedulableAndUnresolvable, vec![text]);
        return Ok(Some(Outcome::Unschedulable(message::refused_by_pre_filter(
            plan.prepared.n_nodes(),
            refusal,
        ))));
    }
    Ok(None)
}

/// The PreFilter that refuses the pod as a whole, and its reason (S-PF-2); one that fails ends the attempt (S-PF-4).
pub(crate) fn pre_filter_refusal(plan: &Plan<'_>) -> Result<Option<(Plugin, String)>, EngineError> {
    match plan.pre_filter_failure() {
        None => Ok(None),
        Some((plugin, PreFilterFailure::Refused(text))) => Ok(Some((plugin, text))),
        Some((plugin, PreFilterFailure::Error(text))) => {
            let message = format!("running PreFilter plugin \"{plugin}\": {text}");
            Err(EngineError::SchedulerError { message })
        }
    }
}

/// S-Q-6
fn gate_reason(plan: &Plan<'_>) -> Option<String> {
    let gates = &plan.prepared.shape().gates;
    if gates.is_empty()
        || !plan.prepared.policy().spec().pre_enqueue.contains(&Plugin::SchedulingGates)
    {
        return None;
    }
    let gates: Vec<_> = gates.iter().map(|gate| plan.prepared.names().name(*gate)).collect();
    Some(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
}

fn placed(
    plan: &Plan<'_>,
    row: NodeRow,
    total: Option<i64>,
    n_feasible: u32,
    n_best: u32,
) -> Decided {
    let shard = &plan.prepared.snapshot().shards[row.shard()];
    let node =
        shard.nodes.node(row.row()).map_or_else(|| "".into(), |node| node.facts().name.clone());
    debug_assert!(!node.is_empty(), "a feasible row holds a node");
    let volumes = plan.prepared.volumes().bindings(row);
    let assumed = false;
    let placement = Placement { node, total, n_feasible, n_best, assumed, volumes };
    let outcome = Outcome::Placed(placement);
    let chosen = Chosen { row, basis: Basis::of(plan, row) };
    Decided { decision: plan.decision(outcome), chosen: Some(chosen) }
}
