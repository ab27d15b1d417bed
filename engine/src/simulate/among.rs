//! Among: the node that a placement would choose if only some nodes are allowed.

use crate::error::EngineError;
use crate::place::select::select;
use crate::place::{Evaluation, pre_filter_refusal};
use crate::plan::Plan;
use crate::plan::request::TieBreak;
use crate::rows::{NodeRow, RowSet};

/// The row that an attempt limited to some rows would choose; `None` where none of them takes the pod. Gates and the
/// pod's own nomination are ignored.
pub(crate) fn decide_among(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    tie_break: TieBreak,
    among: &[RowSet],
) -> Result<Option<NodeRow>, EngineError> {
    if pre_filter_refusal(plan)?.is_some() {
        return Ok(None);
    }
    plan.filtering(evaluation, |plan, evaluation| {
        evaluation.filter(plan);
        let feasible = evaluation.feasible_among(plan, among)?;
        let Some(feasible) = feasible else { return Ok(None) };
        if feasible.len() == 1 {
            return Ok(Some(feasible.first()));
        }
        plan.check_scoring()?;
        let plan = &plan.scoring(evaluation);
        Ok(select(plan, evaluation.rank(plan, &feasible), tie_break))
    })
}
