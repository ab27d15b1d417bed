//! Failure: why a call has no answer, and how kube-scheduler is told.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use berth_engine::{EngineError, ModelError};
use tonic::Code;

use super::text;
use crate::escape;
use crate::feed::NotReady;
use crate::grpc::CallError;
use crate::telemetry::{ExtenderOutcome, ExtenderVerb};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
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
    pub(super) fn busy() -> Failure {
        Failure::Busy { retry_after: Duration::from_secs(1) }
    }

    /// A field of the request that cannot be read.
    pub(super) fn field(error: &ModelError) -> Failure {
        Failure::Invalid(
            escape::printable(&format!("`Pod.{}`: {}", error.field, error.reason)).into_owned(),
        )
    }

    pub(super) fn outcome(&self) -> ExtenderOutcome {
        match self {
            Failure::Invalid(_) | Failure::TooLarge { .. } | Failure::Cut(_) => {
                ExtenderOutcome::Invalid
            }
            Failure::Refused(_) => ExtenderOutcome::Refused,
            Failure::NotReady(_) | Failure::Busy { .. } | Failure::Broken => {
                ExtenderOutcome::Unavailable
            }
        }
    }

    /// The code that audit lines tell: the status of an answer does not say what became of a bind.
    fn code(&self) -> Code {
        match self {
            Failure::Invalid(_) => Code::InvalidArgument,
            Failure::Refused(_) => Code::FailedPrecondition,
            Failure::NotReady(_) => Code::Unavailable,
            Failure::Busy { .. } | Failure::TooLarge { .. } => Code::ResourceExhausted,
            Failure::Cut(_) => Code::DeadlineExceeded,
            Failure::Broken => Code::Internal,
        }
    }

    /// Filter and bind show the `Error` of a 200 in the pod's event. The answers to prioritize and preempt have no room for one:
    /// whatever stood there would read as "no score" and "no candidate", so they fail by status.
    pub(super) fn response(&self, verb: ExtenderVerb) -> Response {
        let has_error = matches!(verb, ExtenderVerb::Filter | ExtenderVerb::Bind);
        let status = match self {
            Failure::Invalid(_) | Failure::Refused(_) if has_error => StatusCode::OK,
            Failure::Invalid(_) => StatusCode::BAD_REQUEST,
            Failure::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Failure::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Failure::Cut(_) => StatusCode::REQUEST_TIMEOUT,
            Failure::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut json = b"{\"Error\":".to_vec();
        text::string(&mut json, &escape::clipped(&self.to_string()));
        json.push(b'}');
        let mut response = Response::new(Body::from(json));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Failure::Busy { retry_after } = self {
            // In whole seconds, and not at once.
            let seconds = retry_after.as_secs_f64().ceil().max(1.0);
            if let Ok(seconds) = HeaderValue::from_str(&format!("{seconds:.0}")) {
                response.headers_mut().insert(RETRY_AFTER, seconds);
            }
        }
        response.extensions_mut().insert(self.code());
        response
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

/// Of those only what admission and the pool say can come here.
impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        match error {
            CallError::Overloaded { retry_after, .. } => Failure::Busy { retry_after },
            CallError::DeadlineExceeded => Failure::busy(),
            CallError::NotReady(reason) => Failure::NotReady(reason),
            _ => Failure::Broken,
        }
    }
}
