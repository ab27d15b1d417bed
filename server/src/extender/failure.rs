//! Failure: the reason why an extender call has no answer.

use std::time::Duration;

use berth_engine::{EngineError, ModelError};

use crate::admission::Overloaded;
use crate::escape;
use crate::feed::NotReady;
use crate::service::CallError;

/// The reason why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request is malformed; the text names the field.
    #[error("{0}")]
    Invalid(String),
    /// The request is well formed and cannot be carried out.
    #[error("{0}")]
    Refused(String),
    /// No cluster has been told of, or it is being replaced.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// Too many calls at once.
    #[error("too many calls are under way or waiting")]
    Busy {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// The body is beyond its bound.
    #[error("the body is larger than {limit} bytes; `extender.maxBodyBytes` raises the limit")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The body did not come in time, or not to its end.
    #[error("the body did not arrive: {0}")]
    Cut(&'static str),
    /// A thread failed.
    #[error("the call failed inside the server")]
    Broken,
}

impl Failure {
    /// There is no room for the call, and nobody knows for how long.
    pub(crate) fn busy() -> Failure {
        Failure::Busy { retry_after: Duration::from_secs(1) }
    }

    /// A field of the request that cannot be read.
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
            EngineError::NotEvaluated { .. }
            | EngineError::SchedulerError { .. }
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
