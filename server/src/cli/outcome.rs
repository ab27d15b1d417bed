//! Outcome: a decision about one pod in a sentence.

use berth_proto::berth_v1::Decision;
use berth_proto::berth_v1::decision::Outcome;

use super::output;

/// Exit status of commands with `--fail-pending` where a pod is pending.
pub(super) const PENDING: u8 = 3;

/// Whether the pod has no node: it fits nowhere, or is held back.
pub(super) fn is_pending(decision: &Decision) -> bool {
    !matches!(decision.outcome, Some(Outcome::Placement(_)))
}

/// Returns the outcome for the pod `name` as a sentence.
pub(super) fn summary(name: &str, decision: Option<&Decision>) -> String {
    match decision.and_then(|decision| decision.outcome.as_ref()) {
        Some(Outcome::Placement(placement)) => {
            let feasible = output::count(placement.n_feasible_nodes, "feasible node");
            let score = match placement.total_score {
                Some(total) if placement.n_best_nodes > 1 => {
                    format!(
                        "score {total}, shared by {} nodes, of {feasible}",
                        placement.n_best_nodes
                    )
                }
                Some(total) => format!("score {total}, the best of {feasible}"),
                None => "the only feasible node, so nothing is scored".to_owned(),
            };
            let volumes = placement.volumes.as_ref().map(output::volumes);
            let volumes = volumes.map(|volumes| format!("\n{volumes}")).unwrap_or_default();
            format!("{name} goes to {}: {score}{volumes}", placement.node_name)
        }
        Some(Outcome::Unschedulable(unschedulable)) => {
            let by = match unschedulable.pre_filter_plugin.as_str() {
                "" => String::new(),
                plugin => {
                    format!("\nrefused as a whole by {plugin}, before any node was looked at")
                }
            };
            format!("{name} is pending: {}{by}", unschedulable.message)
        }
        Some(Outcome::Gated(gated)) => {
            format!("{name} is held back by {}: {}", gated.plugin, gated.reasons.join(", "))
        }
        None => format!("{name}: the answer holds no decision"),
    }
}
