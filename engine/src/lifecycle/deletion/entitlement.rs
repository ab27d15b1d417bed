//! Entitlements to the removal of a pod (L-DEL-2, L-DEL-6, L-DEL-9, L-DEL-18).

use berth_proto::berth_v1::RemovalEvidence;
use berth_proto::core_v1::Pod;

use crate::lifecycle::deletion::reason::RemovalReason;
use crate::lifecycle::reading::{Seconds, is_marked, node_name};
use crate::lifecycle::vocabulary::PodPhase;

/// Seconds from the run that first misses a node to the removal of its pods (L-GC-3, L-DEL-9).
pub(crate) const QUARANTINE_SECONDS: Seconds = 40;

/// Facts about a missing node object.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::lifecycle) struct NodeAbsence {
    /// Time of the first pass that missed the object.
    pub(in crate::lifecycle) noticed_at: Option<Seconds>,
    /// Whether a live read missed the object too.
    pub(in crate::lifecycle) confirmed_live: bool,
}

/// Facts about the node object of a pod.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::lifecycle) enum NodeObject {
    /// The object exists.
    There {
        /// Whether an administrator has declared the node's processes dead.
        is_out_of_service: bool,
    },
    /// The object is missing.
    Absent(NodeAbsence),
}

/// Entitlement of the node agent, which watched the pod's processes (L-DEL-2). The error is the reason against it.
pub(super) fn agent_entitlement(
    pod: &Pod,
    phase: PodPhase,
    evidence: &RemovalEvidence,
) -> Result<RemovalReason, RemovalReason> {
    if !is_marked(pod) {
        Err(RemovalReason::NotBeingDeleted)
    } else if !evidence.processes_confirmed_dead {
        Err(RemovalReason::ProcessesNotConfirmedDead)
    } else if !phase.is_terminal() {
        Err(RemovalReason::PhaseNotTerminal)
    } else {
        Ok(RemovalReason::ProcessesConfirmedDead)
    }
}

/// Entitlement to remove a pod without a process to lose: never bound, or terminal (L-DEL-18).
pub(super) fn nothing_to_lose(pod: &Pod, phase: PodPhase) -> Option<RemovalReason> {
    match node_name(pod) {
        None => Some(RemovalReason::NeverBound),
        Some(_) if phase.is_terminal() => Some(RemovalReason::TerminalPhase),
        Some(_) => None,
    }
}

/// Entitlement of the pod garbage collector (L-DEL-6). The error is the reason against it.
pub(in crate::lifecycle) fn collector_entitlement(
    pod: &Pod,
    phase: PodPhase,
    node: NodeObject,
    now: Seconds,
) -> Result<RemovalReason, RemovalReason> {
    match place_entitlement(pod, node, now) {
        Ok(RemovalReason::NeverBound) => Ok(RemovalReason::NeverBound),
        _ if phase.is_terminal() => Ok(RemovalReason::TerminalPhase),
        found => found,
    }
}

/// Entitlement of the pod garbage collector by the pod's node alone, whatever the pod's phase.
///
/// The deletion of a node object releases nothing by itself; it entitles only after the quarantine and a live read
/// (L-DEL-8, L-DEL-9). A missing fact never entitles (L-GEN-4).
pub(in crate::lifecycle) fn place_entitlement(
    pod: &Pod,
    node: NodeObject,
    now: Seconds,
) -> Result<RemovalReason, RemovalReason> {
    match (node_name(pod), node) {
        (None, _) if is_marked(pod) => Ok(RemovalReason::NeverBound),
        (Some(_), NodeObject::Absent(absence)) => absent(absence, now),
        (Some(_), NodeObject::There { is_out_of_service: true }) if is_marked(pod) => {
            Ok(RemovalReason::NodeOutOfService)
        }
        _ => Err(RemovalReason::NodeExists),
    }
}

/// Entitlement by a missing node object: missing for long enough, and missed by the live read too, since agents
/// register again (L-DEL-9).
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const THERE: NodeObject = NodeObject::There { is_out_of_service: false };
    const DECLARED_DEAD: NodeObject = NodeObject::There { is_out_of_service: true };

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_object_that_is_gone() {
        let bound = pod(json!({"spec": {"nodeName": "n1"}}));
        let check = |noticed_at, confirmed_live, expected| {
            let absent = NodeObject::Absent(NodeAbsence { noticed_at, confirmed_live });
            assert_eq!(collector_entitlement(&bound, PodPhase::Running, absent, 100), expected);
        };
        // L-DEL-9: never noticed, noticed in the future, and at the end of the quarantine.
        check(None, true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(i64::MAX), true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(61), true, Err(RemovalReason::QuarantineNotElapsed));
        check(Some(60), true, Ok(RemovalReason::NodeObjectDeleted));
        check(Some(i64::MIN), false, Err(RemovalReason::NodeExists));
    }

    #[test]
    fn the_order_of_entitlements() {
        let of = |value, phase, node| collector_entitlement(&pod(value), phase, node, 0);
        let bound = json!({"spec": {"nodeName": "n1"}});
        let mut marked = bound.clone();
        marked["metadata"] = json!({"deletionTimestamp": "2026-01-10T12:00:00Z"});
        // L-DEL-6: a terminal phase goes before the node, and nothing entitles to remove a pod that waits to be bound.
        let absent = NodeObject::Absent(NodeAbsence::default());
        let terminal = Ok(RemovalReason::TerminalPhase);
        assert_eq!(of(bound.clone(), PodPhase::Failed, absent), terminal);
        assert_eq!(of(marked.clone(), PodPhase::Succeeded, DECLARED_DEAD), terminal);
        assert_eq!(of(json!({}), PodPhase::Pending, absent), Err(RemovalReason::NodeExists));
        // The taint alone is not enough: the pod has to be marked.
        let out_of_service = Ok(RemovalReason::NodeOutOfService);
        let refused = Err(RemovalReason::NodeExists);
        assert_eq!(of(bound, PodPhase::Running, DECLARED_DEAD), refused);
        assert_eq!(of(marked.clone(), PodPhase::Running, DECLARED_DEAD), out_of_service);
        assert_eq!(of(marked, PodPhase::Running, THERE), refused);
    }
}
