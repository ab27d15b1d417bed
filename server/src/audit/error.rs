//! Reasons for which a change may not begin because of its audit line.

use std::time::Duration;

/// A change that may not begin: its audit line would be lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// Too many lines wait to be written.
    #[error("the server is overloaded: too many audit lines wait to be written")]
    QueueFull {
        /// Shortest useful delay before a retry.
        retry_after: Duration,
    },
    /// Audit lines cannot be written at all.
    #[error("changes are refused while the audit log cannot be written: see `/readyz`")]
    LogUnwritable,
    /// The call ended before this change began: its caller is gone.
    #[error("the deadline has passed")]
    CallEnded,
}
