//! Evidence that permits breaking the attachments of a node.

use crate::lifecycle::fence::{FenceScope, scope_of_taint};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::lifecycle::word::words;

words! {
    /// Reason why attachments may be broken; the record of a break names it (L-VOL-10).
    enum BreakEntitlement {
        /// A confirmed fence cuts the node off from its storage.
        FenceConfirmed = "FenceConfirmed",
        /// An administrator declared the node dead (L-FENCE-11).
        NodeOutOfService = "NodeOutOfService",
        /// The node is gone for good (L-DEL-8).
        NodeObjectDeleted = "NodeObjectDeleted",
    }
}

/// Facts about a node whose attachments are to be broken. The time for which it has been unhealthy is not among them:
/// time alone never suffices (L-VOL-10).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakEvidence {
    /// Scope of the confirmed fence; `None` for a request that was only accepted (L-FENCE-9).
    pub confirmed_fence: Option<FenceScope>,
    /// Whether the node carries the taint `node.kubernetes.io/out-of-service`.
    pub out_of_service_taint: bool,
    /// Status of the node's `Ready` condition; `None` when not known.
    pub node_ready: Option<ConditionStatus>,
    /// Whether the node's object has been deleted.
    pub node_object_deleted: bool,
}

impl BreakEvidence {
    /// The first fact that permits a break (L-VOL-10).
    #[must_use]
    pub fn entitlement(&self) -> Option<BreakEntitlement> {
        let taint = scope_of_taint(self.out_of_service_taint, self.node_ready);
        if self.confirmed_fence.is_some_and(FenceScope::breaks_attachments) {
            Some(BreakEntitlement::FenceConfirmed)
        } else if taint.is_some_and(FenceScope::breaks_attachments) {
            Some(BreakEntitlement::NodeOutOfService)
        } else if self.node_object_deleted {
            Some(BreakEntitlement::NodeObjectDeleted)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BreakEntitlement, BreakEvidence};
    use crate::lifecycle::fence::FenceScope;
    use crate::lifecycle::vocabulary::ConditionStatus;

    #[test]
    fn one_entitlement_suffices_and_none_does_not() {
        // L-VOL-10
        let nothing = BreakEvidence::default();
        assert_eq!(nothing.entitlement(), None);
        for (scope, expected) in [
            (FenceScope::Compute, Some(BreakEntitlement::FenceConfirmed)),
            (FenceScope::Storage, Some(BreakEntitlement::FenceConfirmed)),
            (FenceScope::NetworkAndStorage, Some(BreakEntitlement::FenceConfirmed)),
            (FenceScope::Network, None),
        ] {
            let evidence = BreakEvidence { confirmed_fence: Some(scope), ..nothing };
            assert_eq!(evidence.entitlement(), expected, "{}", scope.word());
        }
        let tainted = BreakEvidence { out_of_service_taint: true, ..nothing };
        assert_eq!(tainted.entitlement(), None, "readiness unknown");
        let down = BreakEvidence { node_ready: Some(ConditionStatus::False), ..tainted };
        assert_eq!(down.entitlement(), Some(BreakEntitlement::NodeOutOfService));
        let deleted = BreakEvidence { node_object_deleted: true, ..nothing };
        assert_eq!(deleted.entitlement(), Some(BreakEntitlement::NodeObjectDeleted));
    }
}
