//! Why a call of etcd failed.

use tonic::{Code, Status};

/// Reason why a call failed. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No member answered in time, the members have no leader, or it changed during the call. A transaction may have
    /// been carried out, now or later.
    #[error("etcd is not available: {0}")]
    Unavailable(String),
    /// The database has reached its quota. The transaction that reaches it is carried out all the same, and those
    /// after it are not.
    #[error("etcd has no space left: {0}")]
    NoSpace(String),
    /// The revision that was asked for is no longer kept.
    #[error("etcd has compacted this revision: {0}")]
    Compacted(String),
    /// The user or the certificate may not do this. Nothing was carried out.
    #[error("etcd refuses this: {0}")]
    Denied(String),
    /// The request breaks one of etcd's limits, or is malformed. Nothing was carried out.
    #[error("etcd does not take this request: {0}")]
    Invalid(String),
}

impl EtcdError {
    /// Whether the request was certainly not carried out and never will be.
    #[must_use]
    pub fn has_changed_nothing(&self) -> bool {
        match self {
            EtcdError::Denied(_) | EtcdError::Invalid(_) | EtcdError::Compacted(_) => true,
            EtcdError::Unavailable(_) | EtcdError::NoSpace(_) => false,
        }
    }

    /// Whether another member may answer the same request.
    pub(crate) fn is_of_the_member(&self) -> bool {
        matches!(self, EtcdError::Unavailable(_))
    }
}

impl From<Status> for EtcdError {
    fn from(status: Status) -> EtcdError {
        let text = text(&status);
        match status.code() {
            Code::OutOfRange => EtcdError::Compacted(text),
            Code::ResourceExhausted if text.contains("space exceeded") => EtcdError::NoSpace(text),
            Code::PermissionDenied | Code::Unauthenticated => EtcdError::Denied(text),
            // "user name is empty", "authentication failed", and the like: of the credentials, not of the request.
            Code::InvalidArgument if text.contains("user name") || text.contains("auth") => {
                EtcdError::Denied(text)
            }
            Code::InvalidArgument | Code::Unimplemented => EtcdError::Invalid(text),
            _ => EtcdError::Unavailable(text),
        }
    }
}

/// The status' message with what caused it, which for a failed connection is the part that helps.
fn text(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = if text.is_empty() { part } else { format!("{text}: {part}") };
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::EtcdError;

    fn error(code: Code, text: &str) -> EtcdError {
        Status::new(code, text).into()
    }

    /// The codes and texts of etcd 3.4.
    #[test]
    fn etcds_statuses_are_told_apart() {
        let full = error(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert!(matches!(full, EtcdError::NoSpace(_)) && !full.has_changed_nothing());
        let busy = error(Code::ResourceExhausted, "etcdserver: too many requests");
        assert!(matches!(busy, EtcdError::Unavailable(_)));
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        assert!(matches!(error(Code::OutOfRange, compacted), EtcdError::Compacted(_)));
        let denied = error(Code::PermissionDenied, "etcdserver: permission denied");
        assert!(denied.has_changed_nothing());
        let no_user = error(Code::InvalidArgument, "etcdserver: user name is empty");
        assert!(matches!(no_user, EtcdError::Denied(_)));
        let many = error(Code::InvalidArgument, "etcdserver: too many operations in txn request");
        assert!(matches!(many, EtcdError::Invalid(_)));
        for text in ["etcdserver: no leader", "etcdserver: request timed out"] {
            assert!(!error(Code::Unavailable, text).has_changed_nothing(), "{text}");
        }
    }
}
