//! The outcome of admission: what was filled in, or why the pod is refused.

use crate::model::{ModelError, ObjectKey, ObjectKind};

/// A field that admission filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Path of the field in the pod, for example `spec.containers[0].resources.requests[cpu]`.
    pub field: String,
    /// The value as text; that of an object is Kubernetes' short form of it.
    pub value: String,
    /// Where the value comes from: `default`, a field, a plugin, or an object such as `PriorityClass high`.
    pub source: String,
}

/// A reason why an API server might refuse the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionWarning {
    /// The rule's object, for example `ResourceQuota shop/compute`; or the plugin.
    pub source: String,
    /// The sentence for people, in the API server's words where it has some.
    pub message: String,
    /// The amounts of an exceeded quota.
    pub quota: Option<QuotaExcess>,
}

/// The amounts of one resource of a quota that a pod would exceed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaExcess {
    /// The resource as the quota names it, for example `requests.cpu`.
    pub resource: String,
    /// Amount that the pod requests, or its replicas together.
    pub requested: String,
    /// Amount in use.
    pub used: String,
    /// Amount that the quota allows.
    pub hard: String,
}

/// Result of admission: the fields that it filled in, and its warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The fields that were filled in, in the order of the rules that did it.
    pub filled: Vec<Filled>,
    /// Reasons why a real API server might refuse the pod, although it was admitted here.
    pub warnings: Vec<AdmissionWarning>,
}

/// Refusal of a pod or claim by admission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct AdmissionError {
    /// Path of the field, for example `spec.priorityClassName`.
    pub field: String,
    /// Reason in the API server's words.
    pub reason: String,
    /// The object that the cluster lacks, if that is why.
    pub missing: Option<ObjectKey>,
}

impl AdmissionError {
    pub(super) fn new(field: impl Into<String>, reason: impl Into<String>) -> AdmissionError {
        // A model error keeps both texts short, whatever they quote.
        ModelError::new(field, reason).into()
    }

    pub(super) fn missing(
        field: &str,
        kind: ObjectKind,
        name: &str,
        reason: String,
    ) -> AdmissionError {
        let missing = Some(ObjectKey::new(kind, "", name));
        AdmissionError { missing, ..AdmissionError::new(field, reason) }
    }
}

impl From<ModelError> for AdmissionError {
    fn from(error: ModelError) -> AdmissionError {
        let ModelError { field, reason } = error;
        AdmissionError { field, reason, missing: None }
    }
}
