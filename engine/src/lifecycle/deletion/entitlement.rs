//! What entitles to a pod's removal against a node agent's silence (L-DEL-2, L-DEL-6, L-DEL-9, L-DEL-18).

use berth_proto::berth_v1::RemovalEvidence;
use berth_proto::core_v1::{Node, Pod};

use super::authority::RemovalReason;
use crate::lifecycle::pod_gc::QUARANTINE_SECONDS;
use crate::lifecycle::reading::{
    self, OUT_OF_SERVICE, has_taint, is_marked, is_node_ready, node_name,
};
use crate::model::ModelError;

/// What is known of a node object that is not there.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAbsence {
    /// When a pass first missed it, in seconds since the epoch.
    pub noticed_at: Option<i64>,
    /// Whether a live read did not find it either.
    pub confirmed_live: bool,
}

/// The node agent's own: whether it may remove the pod, whose processes it watched (L-DEL-2). The error is why not.
///
/// # Errors
/// [`ModelError`] relative to the pod for a phase that is none.
pub(super) fn agent_entitlement(
    pod: &Pod,
    evidence: &RemovalEvidence,
) -> Result<Result<RemovalReason, RemovalReason>, ModelError> {
    let is_terminal = reading::phase(pod)?.is_terminal();
    Ok(if !is_marked(pod) {
        Err(RemovalReason::NotBeingDeleted)
    } else if !evidence.processes_confirmed_dead {
        Err(RemovalReason::ProcessesNotConfirmedDead)
    } else if !is_terminal {
        Err(RemovalReason::PhaseNotTerminal)
    } else {
        Ok(RemovalReason::ProcessesConfirmedDead)
    })
}

/// A pod without a process to lose: never bound, or terminal (L-DEL-18).
///
/// # Errors
/// [`ModelError`] relative to the pod for a phase that is none.
pub(super) fn nothing_to_lose(pod: &Pod) -> Result<Option<RemovalReason>, ModelError> {
    let is_terminal = reading::phase(pod)?.is_terminal();
    Ok(match node_name(pod) {
        None => Some(RemovalReason::NeverBound),
        Some(_) if is_terminal => Some(RemovalReason::TerminalPhase),
        Some(_) => None,
    })
}

/// The garbage collector's: what entitles it to remove the pod (L-DEL-6), or why nothing does, which is the error. `node` is
/// the pod's node object, `now` in seconds since the epoch.
///
/// That a node object is deleted releases nothing by itself; it is what entitles here, after the quarantine and a live read
/// (L-DEL-8, L-DEL-9). A missing fact never entitles.
///
/// # Errors
/// [`ModelError`] relative to the pod for a phase that is none.
pub fn collector_entitlement(
    pod: &Pod,
    node: Option<&Node>,
    absence: NodeAbsence,
    now: i64,
) -> Result<Result<RemovalReason, RemovalReason>, ModelError> {
    let is_terminal = reading::phase(pod)?.is_terminal();
    let is_bound = node_name(pod).is_some();
    Ok(match node {
        _ if !is_bound && is_marked(pod) => Ok(RemovalReason::NeverBound),
        _ if is_terminal => Ok(RemovalReason::TerminalPhase),
        None if is_bound => absent(absence, now),
        Some(node) if is_marked(pod) && is_out_of_service(node) => {
            Ok(RemovalReason::NodeOutOfService)
        }
        _ => Err(RemovalReason::NodeExists),
    })
}

/// Missed for long enough, and not found by the live read: agents register again (L-DEL-9).
fn absent(absence: NodeAbsence, now: i64) -> Result<RemovalReason, RemovalReason> {
    match absence.noticed_at {
        Some(noticed_at) if now.saturating_sub(noticed_at) >= QUARANTINE_SECONDS => {
            match absence.confirmed_live {
                true => Ok(RemovalReason::NodeObjectDeleted),
                false => Err(RemovalReason::NodeExists),
            }
        }
        _ => Err(RemovalReason::QuarantineNotElapsed),
    }
}

fn is_out_of_service(node: &Node) -> bool {
    !is_node_ready(node) && has_taint(node, OUT_OF_SERVICE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_object_that_is_gone() {
        let bound = pod(json!({"spec": {"nodeName": "n1"}}));
        let check = |noticed_at, confirmed_live, expected| {
            let absence = NodeAbsence { noticed_at, confirmed_live };
            assert_eq!(collector_entitlement(&bound, None, absence, 100), Ok(expected));
        };
        // L-DEL-9: never noticed, noticed in the future, and at the edge.
        check(None, true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(i64::MAX), true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(61), true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(60), true, Ok(RemovalReason::NodeObjectDeleted));
        check(Some(i64::MIN), false, Err(RemovalReason::NodeExists));
    }

    #[test]
    fn the_order_of_entitlements() {
        let of = |value, node: Option<serde_json::Value>| {
            let node: Option<Node> = node.map(|node| serde_json::from_value(node).unwrap());
            collector_entitlement(&pod(value), node.as_ref(), NodeAbsence::default(), 0).unwrap()
        };
        // L-DEL-6: terminal goes before the node, and a pod that waits to be bound is nobody's.
        let terminal = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}});
        assert_eq!(of(terminal, None), Ok(RemovalReason::TerminalPhase));
        assert_eq!(of(json!({}), None), Err(RemovalReason::NodeExists));
        // The taint alone is not enough: the pod has to be marked.
        let node = json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service"}]}});
        let bound = json!({"spec": {"nodeName": "n1"}});
        assert_eq!(of(bound, Some(node.clone())), Err(RemovalReason::NodeExists));
        let marked = json!({
            "metadata": {"deletionTimestamp": "2026-01-10T12:00:00Z"},
            "spec": {"nodeName": "n1"},
        });
        assert_eq!(of(marked, Some(node)), Ok(RemovalReason::NodeOutOfService));
    }
}
