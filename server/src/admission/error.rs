//! Reasons for which admission refuses a call.

use std::time::Duration;

/// A refusal for load: the caller may retry after a while.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is overloaded: {reason}")]
pub(crate) struct Overloaded {
    /// The exhausted resource.
    pub(crate) reason: &'static str,
    /// Shortest useful delay before a retry.
    pub(crate) retry_after: Duration,
}

/// Reason why a call may not begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdmissionError {
    /// Too much load.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The caller's deadline passed before the call could begin.
    #[error("the deadline has passed")]
    DeadlineExceeded,
}

impl AdmissionError {
    pub(crate) fn overloaded(reason: &'static str, retry_after: Duration) -> AdmissionError {
        AdmissionError::Overloaded(Overloaded { reason, retry_after })
    }
}
