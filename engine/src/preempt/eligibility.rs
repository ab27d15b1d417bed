//! Eligibility: whether the pod may preempt at all. Rules: S-PRE-2, S-PRE-3.

use super::resolvable::Resolvable;
use crate::place::promised::promised_row;
use crate::plan::Plan;

/// Why it may not.
pub(super) fn refusal(plan: &Plan<'_>, resolvable: &Resolvable) -> Option<&'static str> {
    let pod = plan.pod();
    if !pod.facts().preemption.may_preempt {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    // A nominated node that evicting pods cannot help any more does not bind the pod.
    let row = promised_row(plan).filter(|row| resolvable.contains(*row))?;
    let pods = plan.snapshot().shards[row.shard()].pods.of(row.row());
    let is_leaving = pods.iter().any(|placed| {
        placed.pod.priority() < pod.priority() && placed.pod.facts().preemption.is_preempted
    });
    is_leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}
