//! Failure: the reason why an extender call has no result.

use std::time::Duration;

use berth_engine::{EngineError, ModelError};

use crate::admission::Overloaded;
use crate::escape;
use crate::feed::NotReady;
use crate::service::CallError;

/// Reason why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request is malformed; the text names the field.
    #[error("{0}")]
    Invalid(String),
    /// The request is well formed and cannot be carried out.
    #[error("{0}")]
    Refused(String),
    /// The cluster is not known yet, or is being replaced.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// Too many calls at once.
    #[error("too many calls are under way or waiting")]
    Busy {
        /// Delay before a retry.
        retry_after: Duration,
    },
    /// The body is larger than the limit.
    #[error("the body is larger than {limit} bytes; `extender.maxBodyBytes` raises the limit")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time, or not completely.
    #[error("the body did not arrive: {0}")]
    Cut(&'static str),
    /// A thread failed.
    #[error("the call failed inside the server")]
    Broken,
}

impl Failure {
    /// Failure for lack of memory for the call; when it will be free is unknown.
    pub(crate) fn busy() -> Failure {
        Failure::Busy { retry_after: Duration::from_secs(1) }
    }

    /// Failure for a field of the request that cannot be read.
    pub(crate) fn field(error: &ModelError) -> Failure {
        Failure::Invalid(
            escape::printable(&format!("`Pod.{}`: {}", error.field, error.reason)).into_owned(),
        )
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        match error {
            EngineError::Model(error) => Failure::field(&error),
            EngineError::SchedulerError { .. }
            | EngineError::AlreadyPlaced { .. }
            | EngineError::Cancelled => {
                Failure::Refused(escape::printable(&error.to_string()).into_owned())
            }
        }
    }
}

/// Maps refusals of admission and of the pool; other call errors do not come here.
impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        match error {
            CallError::Overloaded(Overloaded { retry_after, .. }) => Failure::Busy { retry_after },
            CallError::DeadlineExceeded => Failure::busy(),
            CallError::NotReady(reason) => Failure::NotReady(reason),
            _ => Failure::Broken,
        }
    }
}
