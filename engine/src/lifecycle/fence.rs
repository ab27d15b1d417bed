//! Fencing of nodes that are cut off (group `fencing`): when to fence one, and the actions that a confirmed fence
//! permits.
//!
//! Detectors and fencing mechanisms are outside Berth (L-FENCE-1): their observations and confirmations are facts of a
//! request.

mod decide;
mod sequence;

pub use decide::{
    FenceDecision, FenceMode, FenceReason, Observation, OnContradiction, decide_fence,
};
pub use sequence::fence_sequence;

use berth_proto::core_v1::Node;

use super::node_failure::effect_of;
use super::reading::{OUT_OF_SERVICE, has_taint, in_list, node_ready};
use super::vocabulary::ConditionStatus;
use super::word::words;
use crate::model::ModelError;

words! {
    /// Scope of a fence: the part of the node that it cuts off (L-FENCE-10).
    enum FenceScope {
        /// The processes: by power, by the hypervisor, or by an agent on the host that killed them.
        Compute = "compute",
        /// The node's access to storage.
        Storage = "storage",
        /// The node's network.
        Network = "network",
        /// The node's network and its access to storage.
        NetworkAndStorage = "network+storage",
    }

    /// State of a fence (L-FENCE-7).
    enum FenceState {
        /// Contact with the node is lost; no fence has been requested.
        Detected = "Detected",
        /// A fence was decided on; whether it has taken effect is unknown.
        Fencing = "Fencing",
        /// The fence is confirmed.
        Fenced = "Fenced",
        /// The fence is confirmed, and attachments of the node have been broken.
        AttachmentsBroken = "AttachmentsBroken",
        /// The node is back; this fence is over.
        Recovered = "Recovered",
    }

    /// Type of an event that a fence reacts to.
    enum FenceEventType {
        /// A decision to fence the node.
        Decide = "Decide",
        /// The mechanism accepted the request, which says nothing about the node (L-FENCE-9).
        FenceAccepted = "FenceAccepted",
        /// The mechanism confirms that the node is cut off.
        FenceConfirmed = "FenceConfirmed",
        /// The mechanism gave up (L-FENCE-13).
        FenceFailed = "FenceFailed",
        /// Attachments of the node are to be broken.
        BreakAttachment = "BreakAttachment",
        /// A pod of the node is to be removed.
        RemovePod = "RemovePod",
        /// The name of a pod of the node is to be released.
        ReleaseIdentity = "ReleaseIdentity",
        /// Contact with the node is restored.
        NodeReturned = "NodeReturned",
    }

    /// Outcome of an event.
    enum FenceOutcome {
        /// The event took effect, or its action is allowed.
        Ok = "Ok",
        /// The event does not apply in this state; nothing changes (L-FENCE-7).
        InvalidState = "InvalidState",
        /// The fence is not confirmed (L-FENCE-8).
        RefusedUnfenced = "RefusedUnfenced",
        /// The scope of the fence does not permit the action (L-FENCE-10).
        RefusedScope = "RefusedScope",
        /// The node came back while a fence was requested, which may still take effect (L-FENCE-12).
        FenceInFlight = "FenceInFlight",
        /// The node came back without a reboot, or with processes from before the fence (L-FENCE-12).
        RefusedStillFenced = "RefusedStillFenced",
    }
}

impl FenceScope {
    /// Whether a confirmed fence of this scope keeps the node from writing to its volumes (L-FENCE-10).
    #[must_use]
    pub const fn breaks_attachments(self) -> bool {
        match self {
            FenceScope::Compute | FenceScope::Storage | FenceScope::NetworkAndStorage => true,
            FenceScope::Network => false,
        }
    }

    /// Whether a confirmed fence of this scope isolates the node's processes, so that their pods may be removed and
    /// their names released (L-FENCE-10).
    #[must_use]
    pub const fn removes_pods(self) -> bool {
        match self {
            FenceScope::Compute | FenceScope::NetworkAndStorage => true,
            FenceScope::Storage | FenceScope::Network => false,
        }
    }
}

/// The scope that an administrator confirms with the taint `node.kubernetes.io/out-of-service` (L-FENCE-11): `compute`,
/// on a node that is known not to be ready.
#[must_use]
pub const fn scope_of_taint(
    out_of_service: bool,
    node_ready: Option<ConditionStatus>,
) -> Option<FenceScope> {
    match node_ready {
        Some(ConditionStatus::False | ConditionStatus::Unknown) if out_of_service => {
            Some(FenceScope::Compute)
        }
        _ => None,
    }
}

/// Whether an administrator has declared the node's processes dead (L-FENCE-11, L-DEL-6, L-GC-5).
///
/// # Errors
/// [`ModelError`] relative to the node for an invalid or duplicate `Ready` condition, and for an unknown taint effect.
pub(super) fn is_out_of_service(node: &Node) -> Result<bool, ModelError> {
    for (index, taint) in node.spec.iter().flat_map(|spec| &spec.taints).enumerate() {
        in_list("spec.taints", index, effect_of(taint))?;
    }
    Ok(scope_of_taint(has_taint(node, OUT_OF_SERVICE), node_ready(node)?).is_some())
}

/// The fence of one node, from the loss of contact to its return. After [`FenceState::Recovered`] the next loss is a
/// new fence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Scope of the fence.
    pub scope: FenceScope,
    /// State that the fence has reached.
    pub state: FenceState,
}

/// One event of a fence.
#[derive(Copy, Clone, Debug)]
pub struct FenceEvent {
    /// Type of the event.
    pub r#type: FenceEventType,
    /// For `NodeReturned`: whether the node has rebooted since the fence.
    pub rebooted: bool,
    /// For `NodeReturned`: whether the node reports that no process from before is left.
    pub no_leftover_processes: bool,
}

impl Fence {
    /// A fence in its first state: contact with the node is lost.
    #[must_use]
    pub const fn detected(scope: FenceScope) -> Fence {
        Fence { scope, state: FenceState::Detected }
    }

    /// Applies an event. Only the outcome `Ok` changes the fence.
    pub fn apply(&mut self, event: &FenceEvent) -> FenceOutcome {
        match self.next(event) {
            Ok(state) => {
                self.state = state;
                FenceOutcome::Ok
            }
            Err(refusal) => refusal,
        }
    }

    /// Whether attachments of the node may be broken (L-FENCE-8, L-FENCE-10).
    #[must_use]
    pub const fn lets_break_attachments(&self) -> bool {
        self.is_confirmed() && self.scope.breaks_attachments()
    }

    /// Whether pods of the node may be removed and their names released (L-FENCE-8, L-FENCE-10).
    #[must_use]
    pub const fn lets_remove_pods(&self) -> bool {
        self.is_confirmed() && self.scope.removes_pods()
    }

    /// Whether the node is known to be cut off.
    const fn is_confirmed(&self) -> bool {
        matches!(self.state, FenceState::Fenced | FenceState::AttachmentsBroken)
    }

    /// The state after an event, or the reason against the event (L-FENCE-7).
    fn next(&self, event: &FenceEvent) -> Result<FenceState, FenceOutcome> {
        use FenceState::{AttachmentsBroken, Detected, Fenced, Fencing, Recovered};
        match (event.r#type, self.state) {
            // A recovered fence takes no events.
            (_, Recovered) => Err(FenceOutcome::InvalidState),
            (FenceEventType::Decide, Detected) => Ok(Fencing),
            // L-FENCE-9: acceptance is not confirmation.
            (FenceEventType::FenceAccepted, Fencing) => Ok(Fencing),
            (FenceEventType::FenceConfirmed, Fencing) => Ok(Fenced),
            // L-FENCE-13
            (FenceEventType::FenceFailed, Fencing) => Ok(Detected),
            (
                FenceEventType::Decide
                | FenceEventType::FenceAccepted
                | FenceEventType::FenceConfirmed
                | FenceEventType::FenceFailed,
                _,
            ) => Err(FenceOutcome::InvalidState),
            (FenceEventType::BreakAttachment, _) => {
                self.entitled(self.lets_break_attachments()).map(|_| AttachmentsBroken)
            }
            (FenceEventType::RemovePod | FenceEventType::ReleaseIdentity, state) => {
                self.entitled(self.lets_remove_pods()).map(|()| state)
            }
            // L-FENCE-12
            (FenceEventType::NodeReturned, Detected) => Ok(Recovered),
            (FenceEventType::NodeReturned, Fencing) => Err(FenceOutcome::FenceInFlight),
            (FenceEventType::NodeReturned, Fenced | AttachmentsBroken) => {
                if event.rebooted && event.no_leftover_processes {
                    Ok(Recovered)
                } else {
                    Err(FenceOutcome::RefusedStillFenced)
                }
            }
        }
    }

    fn entitled(&self, is_in_scope: bool) -> Result<(), FenceOutcome> {
        if !self.is_confirmed() {
            return Err(FenceOutcome::RefusedUnfenced);
        }
        if is_in_scope { Ok(()) } else { Err(FenceOutcome::RefusedScope) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fence, FenceEvent, FenceEventType, FenceScope, FenceState, scope_of_taint};
    use crate::lifecycle::vocabulary::ConditionStatus;

    /// The outcome and the state after an event, for each of the five states in order.
    fn row(scope: FenceScope, word: &str, is_clean: bool) -> Vec<(&'static str, &'static str)> {
        let r#type = FenceEventType::parse(word, "type").unwrap();
        let event = FenceEvent { r#type, rebooted: is_clean, no_leftover_processes: is_clean };
        let states = FenceState::WORDS.iter().map(|state| FenceState::parse(state, "").unwrap());
        states
            .map(|state| {
                let mut fence = Fence { scope, state };
                (fence.apply(&event).word(), fence.state.word())
            })
            .collect()
    }

    #[test]
    fn the_whole_table() {
        // L-FENCE-7 to L-FENCE-13, every event in every state; the scope makes no difference here.
        let out_of_order = |state| ("InvalidState", state);
        for scope in [FenceScope::Compute, FenceScope::NetworkAndStorage] {
            let over = out_of_order("Recovered");
            let invalid = ["Fenced", "AttachmentsBroken"].map(out_of_order);
            for (word, detected, fencing) in [
                ("Decide", ("Ok", "Fencing"), out_of_order("Fencing")),
                ("FenceAccepted", out_of_order("Detected"), ("Ok", "Fencing")),
                ("FenceConfirmed", out_of_order("Detected"), ("Ok", "Fenced")),
                ("FenceFailed", out_of_order("Detected"), ("Ok", "Detected")),
            ] {
                let expected = [detected, fencing, invalid[0], invalid[1], over];
                assert_eq!(row(scope, word, true), expected, "{word}");
            }
            let unfenced = ["Detected", "Fencing"].map(|state| ("RefusedUnfenced", state));
            for word in ["RemovePod", "ReleaseIdentity"] {
                let allowed = [("Ok", "Fenced"), ("Ok", "AttachmentsBroken")];
                let expected = [unfenced[0], unfenced[1], allowed[0], allowed[1], over];
                assert_eq!(row(scope, word, false), expected, "{word}");
            }
            let broken = ("Ok", "AttachmentsBroken");
            let expected = [unfenced[0], unfenced[1], broken, broken, over];
            assert_eq!(row(scope, "BreakAttachment", false), expected);
        }
    }

    #[test]
    fn a_fenced_node_comes_back_clean_or_not_at_all() {
        // L-FENCE-12
        let in_flight = ("FenceInFlight", "Fencing");
        let back = ("Ok", "Recovered");
        let over = ("InvalidState", "Recovered");
        assert_eq!(
            row(FenceScope::Compute, "NodeReturned", true),
            [back, in_flight, back, back, over]
        );
        let refused = ["Fenced", "AttachmentsBroken"].map(|state| ("RefusedStillFenced", state));
        assert_eq!(
            row(FenceScope::Compute, "NodeReturned", false),
            [back, in_flight, refused[0], refused[1], over]
        );
        for (rebooted, no_leftover_processes) in [(true, false), (false, true)] {
            let r#type = FenceEventType::NodeReturned;
            let mut fence = Fence { scope: FenceScope::Storage, state: FenceState::Fenced };
            let outcome = fence.apply(&FenceEvent { r#type, rebooted, no_leftover_processes });
            assert_eq!(outcome.word(), "RefusedStillFenced");
        }
    }

    #[test]
    fn each_scope_permits_its_actions() {
        // L-FENCE-10
        for (word, breaks, removes) in [
            ("compute", "Ok", "Ok"),
            ("network+storage", "Ok", "Ok"),
            ("storage", "Ok", "RefusedScope"),
            ("network", "RefusedScope", "RefusedScope"),
        ] {
            let scope = FenceScope::parse(word, "scope").unwrap();
            assert_eq!(row(scope, "BreakAttachment", false)[2].0, breaks, "{word}");
            assert_eq!(row(scope, "RemovePod", false)[2].0, removes, "{word}");
            assert_eq!(row(scope, "ReleaseIdentity", false)[3].0, removes, "{word}");
        }
    }

    #[test]
    fn the_taint_confirms_only_for_a_node_that_is_not_ready() {
        // L-FENCE-11; L-GEN-4 for unknown readiness.
        for ready in [ConditionStatus::False, ConditionStatus::Unknown] {
            assert_eq!(scope_of_taint(true, Some(ready)), Some(FenceScope::Compute));
            assert_eq!(scope_of_taint(false, Some(ready)), None);
        }
        assert_eq!(scope_of_taint(true, Some(ConditionStatus::True)), None);
        assert_eq!(scope_of_taint(true, None), None);
    }
}
