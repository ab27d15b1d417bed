//! ModelError: a refused object, and which field of it.

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
        self.field = if self.field.is_empty() || self.field.starts_with('[') {
            format!("{parent}{}", self.field)
        } else {
            format!("{parent}.{}", self.field)
        };
        self
    }
}
