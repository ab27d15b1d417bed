//! Which node holds a volume (group `volume`): one record a volume, which changes by compare-and-swap only (L-VOL-1).
//!
//! The record stands for every backend, those without locking of their own included. The hand-over from a pod on one
//! node to a pod on another (L-VOL-14) is a sequence of the operations here; where the first node is cut off it stands still
//! until a break does what the detach would have done (L-VOL-15).

mod access_modes;
mod evidence;
mod holders;
mod sequence;

pub use access_modes::{AccessMode, AccessModes, multi_attach_allowed};
pub use evidence::{BreakEntitlement, BreakEvidence};
pub use holders::Holder;
pub use sequence::{FenceProgress, OperationType, attach_sequence};

use self::holders::Holders;
use super::word::words;
use crate::model::ModelError;

words! {
    /// What became of an operation.
    enum AttachReason {
        /// The pod is a holder now.
        Attached = "Attached",
        /// The pod was a holder already (L-VOL-6).
        AlreadyAttached = "AlreadyAttached",
        /// The pod is no holder any more.
        Detached = "Detached",
        /// There was nothing to take away (L-VOL-6).
        NotAttached = "NotAttached",
        /// The node's holders were removed.
        Broken = "Broken",
        /// The pod holds the volume on its node.
        MayStart = "MayStart",
        /// The record is not the one that the caller has seen (L-VOL-2).
        VersionConflict = "VersionConflict",
        /// A holder is on another node (L-VOL-3).
        HeldByOtherNode = "HeldByOtherNode",
        /// The holder is another pod (L-VOL-4).
        HeldByOtherPod = "HeldByOtherPod",
        /// The pod is not gone (L-VOL-8).
        PodStillExists = "PodStillExists",
        /// The node has the volume mounted (L-VOL-8).
        StillMounted = "StillMounted",
        /// Nothing entitles to break (L-VOL-10).
        FenceRequired = "FenceRequired",
        /// Someone else has to let go first (L-VOL-7).
        WaitForDetach = "WaitForDetach",
        /// Nobody is in the way, but the pod is no holder yet (L-VOL-7).
        WaitForAttach = "WaitForAttach",
    }
}

/// The answer to an operation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AttachOutcome {
    /// Whether what was asked for is so now.
    pub ok: bool,
    /// Why.
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

/// A change that is asked for, by a caller who has seen the record at `expected_version`.
#[derive(Copy, Clone, Debug)]
pub enum Operation<'a> {
    /// The pod becomes a holder.
    Attach {
        /// Its node.
        node: &'a str,
        /// The pod.
        pod_uid: &'a str,
        /// The version that the caller has seen.
        expected_version: u64,
    },
    /// The pod lets go.
    Detach {
        /// Its node.
        node: &'a str,
        /// The pod.
        pod_uid: &'a str,
        /// The version that the caller has seen.
        expected_version: u64,
        /// Its object is gone, or it is terminal and its processes are confirmed dead.
        pod_gone: bool,
        /// The node has the volume mounted.
        mounted: bool,
    },
    /// Every holder on the node is removed without its doing.
    BreakAttachment {
        /// The node.
        node: &'a str,
        /// The version that the caller has seen.
        expected_version: u64,
        /// What is known of the node.
        evidence: BreakEvidence,
    },
}

/// The record of one volume. Without multi-attach all holders are on one node (L-VOL-3), with `ReadWriteOncePod` there is at most
/// one (L-VOL-4): a record that says otherwise cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    access_modes: AccessModes,
    version: u64,
    holders: Holders,
}

impl Attachment {
    /// The record as it was stored: `holders` in the order in which they came.
    ///
    /// # Errors
    /// [`ModelError`] at `version` above 2⁶³ - 1, and at `holders[i]` for a holder without node or UID, one that is there twice,
    /// and one that the access modes forbid beside those before it.
    pub fn new(
        access_modes: AccessModes,
        version: u64,
        holders: impl IntoIterator<Item = Holder>,
    ) -> Result<Attachment, ModelError> {
        // Leaves room for more changes than can be asked for.
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

    /// What the volume can be used for.
    #[must_use]
    pub const fn access_modes(&self) -> AccessModes {
        self.access_modes
    }

    /// How often the record has changed.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The holders, in the order in which they came. Cost: a sort of all.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        self.holders.in_order()
    }

    /// Carries out an operation, or says why not. A change raises the version by one (L-VOL-1); nothing else does.
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

    /// Whether the pod may start on the node, and what it waits for otherwise (L-VOL-7), however long: when its node agent says so
    /// in an event is the agent's (L-VOL-9).
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

    /// Why the pod, which is no holder yet, may not become one (L-VOL-4 before L-VOL-3). Pods of one node may share a volume
    /// (L-VOL-12), and a pod is its UID, whatever its name (L-VOL-16).
    fn obstacle(&self, node: &str, pod_uid: &str) -> Option<AttachReason> {
        if self.access_modes.is_one_pod_only() {
            if self.holders.has_other_pod(pod_uid) {
                return Some(AttachReason::HeldByOtherPod);
            }
            // The same pod on another node would be a second holder, whatever else the modes allow.
            return self.holders.has_other_node(node).then_some(AttachReason::HeldByOtherNode);
        }
        let is_blocked = !self.access_modes.allows_multi_attach();
        (is_blocked && self.holders.has_other_node(node)).then_some(AttachReason::HeldByOtherNode)
    }
}

#[cfg(test)]
mod tests;
