//! ModelError: the refusal of an object, with the field at fault.

/// A refused object or request: which field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct ModelError {
    /// Path of the field, for example `spec.containers[0].resources.requests[cpu]`.
    pub field: String,
    /// Description of what is wrong with the field.
    pub reason: String,
}

impl ModelError {
    /// An error of `field` for `reason`; long texts are cut in the middle.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> ModelError {
        ModelError { field: shortened(field.into()), reason: shortened(reason.into()) }
    }

    /// The error with its path prefixed by `parent`, the field of the containing object.
    pub(crate) fn under(mut self, parent: &str) -> ModelError {
        self.field = if self.field.is_empty() || self.field.starts_with('[') {
            format!("{parent}{}", self.field)
        } else {
            format!("{parent}.{}", self.field)
        };
        self
    }
}

/// The largest number of bytes of a path or a reason: both may quote input, which may be megabytes.
const MAX_BYTES: usize = 1_000;

fn shortened(text: String) -> String {
    if text.len() <= MAX_BYTES {
        return text;
    }
    let head = &text[..text.floor_char_boundary(MAX_BYTES - MAX_BYTES / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - MAX_BYTES / 4)..];
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        let long = format!("a{}b", "ж".repeat(1 << 20));
        let error = ModelError::new("spec.x", &*long);
        assert_eq!(error.field, "spec.x");
        assert!(error.reason.starts_with("aж") && error.reason.ends_with("жb"));
        assert!(error.reason.len() < 1_010, "{}", error.reason.len());
        assert_eq!(ModelError::new("x", "y".repeat(1_000)).reason.len(), 1_000);
    }
}
