//! Place: decides where a pod goes. [`decide`] is the first function to read in this crate.

pub(crate) mod basis;
pub(crate) mod decision;
mod classes;
mod evaluation;
pub(crate) mod explain;
pub(crate) mod memo;
pub(crate) mod message;
mod normalized;
pub(crate) mod promised;
pub(crate) mod ranking;
mod raw_maxima;
pub(crate) mod remedy;
pub(crate) mod select;
mod shard_evaluation;
mod shard_set;
pub(crate) mod survey;
mod ties;

pub(crate) use evaluation::Evaluation;
pub(crate) use explain::explain;

use std::sync::Arc;

use crate::error::EngineError;
use crate::filter::PreFilterFailure;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plan::request::TieBreak;
use crate::plugin::{Plugin, StatusCode};
use crate::rows::NodeRow;
use basis::Basis;
use decision::{Decision, Outcome, Placement, Unschedulable};
use ranking::Ranking;

/// A decision and, when it is a placement, the chosen row.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) chosen: Option<Chosen>,
}

/// The chosen row, with the basis of the choice.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) row: NodeRow,
    pub(crate) basis: Basis,
}

/// The node that an attempt chooses, and the number of nodes it was chosen from.
struct Choice {
    row: NodeRow,
    node: Arc<str>,
    /// The total score; `None` where only one node was feasible, so that nothing was scored (S-CYC-6).
    total: Option<i64>,
    n_feasible: u32,
    n_best: u32,
}

/// Runs one scheduling attempt (S-CYC-1 to S-CYC-7, without preemption): gates, PreFilter, the nominated node, Filter,
/// Score, choice.
///
/// `evaluation` may hold the results of an earlier attempt of the same shape and policy, or nothing; the decision is
/// the same. Cost: one pass over the shards that changed since, and one visit to each of the others.
pub(crate) fn decide(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
) -> Result<Decided, EngineError> {
    if let Some(outcome) = before_filtering(plan)? {
        return Ok(Decided { decision: decision(plan, outcome), chosen: None });
    }
    plan.filtering(evaluation, |plan, evaluation| {
        let choice = match promised::kept_promise(plan) {
            Some(row) => only(plan, row),
            None => {
                evaluation.filter(plan);
                choose(plan, evaluation, tie_break)?
            }
        };
        Ok(match choice {
            Some(choice) => placed(plan, choice),
            None => {
                let outcome = Outcome::Unschedulable(message::unschedulable(plan));
                Decided { decision: decision(plan, outcome), chosen: None }
            }
        })
    })
}

/// The choice among the feasible rows, after filtering; `None` if no row is feasible.
fn choose(
    plan: &mut Filtering<'_, '_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
) -> Result<Option<Choice>, EngineError> {
    if plan.is_by_row() && evaluation.n_feasible() > 1 && !plan.devices().has_failed() {
        plan.check_scoring()?;
        let n_feasible = evaluation.n_feasible();
        return Ok(best(plan, evaluation.rank_rows(plan), n_feasible, tie_break));
    }
    if plan.is_by_class() && evaluation.n_feasible() > 1 && !plan.devices().has_failed() {
        let plan = &plan.scoring(evaluation);
        if let Some(passing) = evaluation.passing_classes(plan) {
            if passing.n_rows() <= 1 {
                return Ok(evaluation.first_passing(&passing).and_then(|row| only(plan, row)));
            }
            plan.check_scoring()?;
            let n_feasible = passing.n_rows();
            return Ok(best(plan, evaluation.rank_by_class(plan, &passing), n_feasible, tie_break));
        }
    }
    let Some(feasible) = evaluation.feasible(plan)? else { return Ok(None) };
    if feasible.len() == 1 {
        return Ok(only(plan, feasible.first()));
    }
    plan.check_scoring()?;
    let plan = &plan.scoring(evaluation);
    Ok(best(plan, evaluation.rank(plan, &feasible), feasible.len(), tie_break))
}

/// The choice of the only feasible row; `None` if it holds no node.
fn only(plan: &Plan<'_>, row: NodeRow) -> Option<Choice> {
    let node = plan.snapshot().node_name(row)?.clone();
    Some(Choice { row, node, total: None, n_feasible: 1, n_best: 1 })
}

/// The choice of one of the best rows; `None` if there are none.
fn best(
    plan: &Plan<'_>,
    best: &mut Ranking,
    n_feasible: u32,
    tie_break: TieBreak,
) -> Option<Choice> {
    let row = select::select(plan, best, tie_break)?;
    let node = plan.snapshot().node_name(row)?.clone();
    Some(Choice { row, node, total: Some(best.total()), n_feasible, n_best: best.n_rows() })
}

/// The outcome of an attempt that ends before any node is filtered (S-Q-5, S-CYC-1, S-CYC-2).
pub(crate) fn before_filtering(plan: &Plan<'_>) -> Result<Option<Outcome>, EngineError> {
    if let Some((plugin, reason)) = gate(plan) {
        return Ok(Some(Outcome::Gated { plugin, reasons: vec![reason] }));
    }
    if plan.n_nodes() == 0 {
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
            plan.n_nodes(),
            refusal,
        ))));
    }
    Ok(None)
}

/// The PreFilter that refuses the pod as a whole, and its reason (S-PF-2); one that fails ends the attempt with an
/// error (S-PF-4).
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

/// The first PreEnqueue plugin, in the policy's order, that holds the pod back, and its reason (S-Q-6, S-Q-7).
pub(crate) fn gate(plan: &Plan<'_>) -> Option<(Plugin, String)> {
    plan.policy().spec().pre_enqueue.iter().find_map(|plugin| {
        let reason = match plugin {
            Plugin::SchedulingGates => scheduling_gates(plan)?,
            Plugin::DynamicResources => plan.devices().found()?.claims.unready.clone()?,
            _ => return None,
        };
        Some((*plugin, reason))
    })
}

/// The reason of a pod with scheduling gates; `None` where it has none (S-Q-6).
fn scheduling_gates(plan: &Plan<'_>) -> Option<String> {
    let gates = &plan.shape().gates;
    if gates.is_empty() {
        return None;
    }
    let gates: Vec<_> = gates.iter().map(|gate| plan.names().name(*gate)).collect();
    Some(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
}

/// The placement on the chosen node.
fn placed(plan: &Plan<'_>, choice: Choice) -> Decided {
    let Choice { row, node, total, n_feasible, n_best } = choice;
    let volumes = plan.volumes().bindings(row);
    let devices = plan.assigned_devices(row);
    let (assumed, stamp) = (false, None);
    let placement = Placement { node, total, n_feasible, n_best, assumed, stamp, volumes, devices };
    let chosen = Chosen { row, basis: Basis::of(plan, row) };
    Decided { decision: decision(plan, Outcome::Placed(placement)), chosen: Some(chosen) }
}

fn decision(plan: &Plan<'_>, outcome: Outcome) -> Decision {
    Decision {
        pod: plan.pod().key().clone(),
        uid: plan.pod().facts().uid.clone(),
        generation: plan.snapshot().generation,
        outcome,
    }
}
