//! The closed list of ways in which a call of the engine can fail.

use std::sync::Arc;

use crate::model::PodKey;
use crate::plugin::Plugin;

/// A refused object or request: which field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct ModelError {
    /// Path of the field, for example `spec.containers[0].resources.requests[cpu]`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl ModelError {
    /// An error of `field` for `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> ModelError {
        ModelError { field: field.into(), reason: reason.into() }
    }

    /// The same error seen from the object that holds this one at `parent`.
    pub(crate) fn under(mut self, parent: &str) -> ModelError {
        self.field = if self.field.starts_with('[') {
            format!("{parent}{}", self.field)
        } else {
            format!("{parent}.{}", self.field)
        };
        self
    }
}

/// Why there is no decision. "Fits nowhere" is a decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The request is malformed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The pod uses a field whose plugin this version does not evaluate: no answer is better than a wrong one.
    #[error("`{field}`: needs {plugin}, which this version does not evaluate")]
    NotEvaluated {
        /// Path of the field in the pod.
        field: String,
        /// The plugin that would read it.
        plugin: Plugin,
    },
    /// The attempt ends in kube-scheduler's `SchedulerError` (S-CYC-10).
    #[error("{message}")]
    SchedulerError {
        /// What kube-scheduler would say of it, in substance.
        message: String,
    },
    /// The pod to be assumed is on a node already (S-CCH-2).
    #[error("pod `{pod}` is on node `{node}` already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodKey,
        /// Where it is.
        node: Arc<str>,
    },
    /// The caller gave up before this pod's turn.
    #[error("cancelled before a decision")]
    Cancelled,
}
