//! Attachment records (group `volume`): one record for each volume names the node that holds it, and changes by
//! compare-and-swap only (L-VOL-1).
//!
//! The record covers every backend, including those without locking of their own. The hand-over from a pod on one node
//! to a pod on another (L-VOL-14) is a sequence of the operations here. If the first node is cut off, the sequence
//! stops until a break takes the place of the detach (L-VOL-15).

mod access_modes;
mod evidence;
mod holders;
mod sequence;
pub(crate) mod shared_volumes;

pub use access_modes::{AccessMode, AccessModes, multi_attach_allowed};
pub use evidence::{BreakEntitlement, BreakEvidence};
pub use holders::Holder;
pub use sequence::{FenceProgress, OperationType, attach_sequence};
pub use shared_volumes::{SharingReason, check_shared_volumes};

use self::holders::Holders;
use super::word::words;
use crate::model::ModelError;

words! {
    /// Outcome of an operation.
    enum AttachReason {
        /// The pod is a holder now.
        Attached = "Attached",
        /// The pod was a holder already (L-VOL-6).
        AlreadyAttached = "AlreadyAttached",
        /// The pod is no longer a holder.
        Detached = "Detached",
        /// There was no holder to remove (L-VOL-6).
        NotAttached = "NotAttached",
        /// The node's holders were removed.
        Broken = "Broken",
        /// The pod holds the volume on its node.
        MayStart = "MayStart",
        /// The record has changed since the caller read it (L-VOL-2).
        VersionConflict = "VersionConflict",
        /// A holder is on another node (L-VOL-3).
        HeldByOtherNode = "HeldByOtherNode",
        /// The holder is another pod (L-VOL-4).
        HeldByOtherPod = "HeldByOtherPod",
        /// The pod is not gone (L-VOL-8).
        PodStillExists = "PodStillExists",
        /// The node has the volume mounted (L-VOL-8).
        StillMounted = "StillMounted",
        /// No evidence permits the break (L-VOL-10).
        FenceRequired = "FenceRequired",
        /// Another holder has to detach first (L-VOL-7).
        WaitForDetach = "WaitForDetach",
        /// No other holder is in the way, but the pod is not a holder yet (L-VOL-7).
        WaitForAttach = "WaitForAttach",
    }
}

/// Result of an operation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AttachOutcome {
    /// Whether the requested state holds now.
    pub ok: bool,
    /// Why the operation succeeded or failed.
    pub reason: AttachReason,
}

impl From<AttachReason> for AttachOutcome {
    fn from(reason: AttachReason) -> AttachOutcome {
        use AttachReason::{AlreadyAttached, Attached, Broken, Detached, MayStart, NotAttached};
        let ok = matches!(
            reason,
            Attached | AlreadyAttached | Detached | NotAttached | Broken | MayStart
        );
        AttachOutcome { ok, reason }
    }
}

/// A requested change; the caller read the record at `expected_version`.
#[derive(Copy, Clone, Debug)]
pub enum Operation<'a> {
    /// The pod becomes a holder.
    Attach {
        /// The pod's node.
        node: &'a str,
        /// The pod.
        pod_uid: &'a str,
        /// The record's version that the caller has read.
        expected_version: u64,
    },
    /// The pod stops being a holder.
    Detach {
        /// The pod's node.
        node: &'a str,
        /// The pod.
        pod_uid: &'a str,
        /// The record's version that the caller has read.
        expected_version: u64,
        /// Whether the pod's object is gone, or the pod is terminal and its processes are confirmed dead.
        pod_gone: bool,
        /// Whether the node has the volume mounted.
        mounted: bool,
    },
    /// Every holder on the node is removed, without the node's participation.
    BreakAttachment {
        /// The node.
        node: &'a str,
        /// The record's version that the caller has read.
        expected_version: u64,
        /// Evidence about the node.
        evidence: BreakEvidence,
    },
}

/// The record of one volume. Without multi-attach all holders are on one node (L-VOL-3), with `ReadWriteOncePod` there
/// is at most one (L-VOL-4): [`Attachment::new`] refuses any other record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    access_modes: AccessModes,
    version: u64,
    holders: Holders,
}

impl Attachment {
    /// Reads a stored record: `holders` in the order in which they were attached.
    ///
    /// # Errors
    /// [`ModelError`] at `version` above 2⁶³ - 1, and at `holders[i]` for a holder without node or UID, a duplicate,
    /// and one that the access modes forbid beside the earlier ones.
    pub fn new(
        access_modes: AccessModes,
        version: u64,
        holders: impl IntoIterator<Item = Holder>,
    ) -> Result<Attachment, ModelError> {
        // Leaves room for more changes than can ever be made.
        if version > i64::MAX.unsigned_abs() {
            return Err(ModelError::new("version", format!("`{version}` is above {}", i64::MAX)));
        }
        let mut record = Attachment { access_modes, version, holders: Holders::default() };
        for (index, holder) in holders.into_iter().enumerate() {
            let refused = |reason: String| ModelError::new(format!("holders[{index}]"), reason);
            for (field, value) in [("node", &holder.node), ("podUID", &holder.pod_uid)] {
                if value.is_empty() {
                    return Err(ModelError::new(format!("holders[{index}].{field}"), "required"));
                }
            }
            let Holder { node, pod_uid } = &holder;
            if record.holders.contains(node, pod_uid) {
                return Err(refused(format!("pod `{pod_uid}` holds it on node `{node}` already")));
            }
            if let Some(obstacle) = record.obstacle(node, pod_uid) {
                return Err(refused(format!("contradicts `accessModes`: {}", obstacle.word())));
            }
            record.holders.insert(node, pod_uid);
        }
        Ok(record)
    }

    /// The volume's access modes.
    #[must_use]
    pub const fn access_modes(&self) -> AccessModes {
        self.access_modes
    }

    /// The record's version; every change raises it by one.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The holders, in the order in which they were attached. Cost: a sort of all.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        self.holders.in_order()
    }

    /// Applies an operation, or returns the reason against it. Only a change raises the version, by one (L-VOL-1).
    ///
    /// Cost: logarithmic in the number of holders, and in addition what a break removes.
    pub fn apply(&mut self, operation: &Operation<'_>) -> AttachOutcome {
        let reason = self.check(operation);
        match (reason, operation) {
            (AttachReason::Attached, Operation::Attach { node, pod_uid, .. }) => {
                self.holders.insert(node, pod_uid);
                self.version += 1;
            }
            (AttachReason::Detached, Operation::Detach { node, pod_uid, .. }) => {
                self.holders.remove(node, pod_uid);
                self.version += 1;
            }
            (AttachReason::Broken, Operation::BreakAttachment { node, .. }) => {
                self.holders.remove_node(node);
                self.version += 1;
            }
            _ => {}
        }
        reason.into()
    }

    /// Whether the pod may start on the node, or which step it waits for (L-VOL-7). There is no time limit; reporting a
    /// long wait as an event is up to the node agent (L-VOL-9).
    #[must_use]
    pub fn may_start(&self, node: &str, pod_uid: &str) -> AttachOutcome {
        let reason = if self.holders.contains(node, pod_uid) {
            AttachReason::MayStart
        } else if self.obstacle(node, pod_uid).is_some() {
            AttachReason::WaitForDetach
        } else {
            AttachReason::WaitForAttach
        };
        reason.into()
    }

    fn check(&self, operation: &Operation<'_>) -> AttachReason {
        let (Operation::Attach { expected_version, .. }
        | Operation::Detach { expected_version, .. }
        | Operation::BreakAttachment { expected_version, .. }) = *operation;
        // L-VOL-2: before everything else.
        if expected_version != self.version {
            return AttachReason::VersionConflict;
        }
        match *operation {
            Operation::Attach { node, pod_uid, .. } => {
                if self.holders.contains(node, pod_uid) {
                    return AttachReason::AlreadyAttached;
                }
                self.obstacle(node, pod_uid).unwrap_or(AttachReason::Attached)
            }
            Operation::Detach { node, pod_uid, pod_gone, mounted, .. } => {
                if !self.holders.contains(node, pod_uid) {
                    AttachReason::NotAttached
                } else if !pod_gone {
                    AttachReason::PodStillExists
                } else if mounted {
                    AttachReason::StillMounted
                } else {
                    AttachReason::Detached
                }
            }
            Operation::BreakAttachment { node, evidence, .. } => {
                if !self.holders.has_node(node) {
                    AttachReason::NotAttached
                } else if evidence.entitlement().is_some() {
                    AttachReason::Broken
                } else {
                    AttachReason::FenceRequired
                }
            }
        }
    }

    /// The reason why a pod that is not a holder may not become one (L-VOL-4 before L-VOL-3). Pods of one node may
    /// share a volume (L-VOL-12). Pods are distinguished by UID, not by name (L-VOL-16).
    fn obstacle(&self, node: &str, pod_uid: &str) -> Option<AttachReason> {
        if self.access_modes.is_one_pod_only() {
            if self.holders.has_other_pod(pod_uid) {
                return Some(AttachReason::HeldByOtherPod);
            }
            // A pod that holds it on another node would become a second holder.
            return self.holders.has_other_node(node).then_some(AttachReason::HeldByOtherNode);
        }
        let is_blocked = !self.access_modes.allows_multi_attach();
        (is_blocked && self.holders.has_other_node(node)).then_some(AttachReason::HeldByOtherNode)
    }
}

#[cfg(test)]
mod tests;
