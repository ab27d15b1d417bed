//! EngineError: the ways in which a call of the engine can fail.

use std::sync::Arc;

use crate::model::{ModelError, PodKey};

/// Why there is no decision. That a pod fits nowhere is a decision, not an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The request is malformed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The attempt ends in kube-scheduler's `SchedulerError` (S-CYC-10).
    #[error("{message}")]
    SchedulerError {
        /// The error in kube-scheduler's sense.
        message: String,
    },
    /// The pod to be assumed is on a node already (S-CCH-2).
    #[error("pod `{pod}` is on node `{node}` already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodKey,
        /// The pod's node.
        node: Arc<str>,
    },
    /// The caller cancelled before this pod was decided.
    #[error("cancelled before a decision")]
    Cancelled,
}

/// Checks whether the caller has cancelled.
///
/// # Errors
/// [`EngineError::Cancelled`] once `cancelled` returns true.
pub(crate) fn check_wanted(cancelled: &dyn Fn() -> bool) -> Result<(), EngineError> {
    if cancelled() { Err(EngineError::Cancelled) } else { Ok(()) }
}
