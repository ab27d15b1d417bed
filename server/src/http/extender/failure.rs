//! Failed extender calls as HTTP responses.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tonic::Code;

use crate::escape;
use crate::extender::{Failure, text};
use crate::http::body::Unread;
use crate::telemetry::{ExtenderOutcome, ExtenderVerb};

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Failure {
        match unread {
            Unread::TooLarge { limit } | Unread::TooMuch { limit } => Failure::TooLarge { limit },
            Unread::Busy => Failure::busy(),
            Unread::Cut(reason) => Failure::Cut(reason),
        }
    }
}

/// The outcome as which a failure is counted.
pub(super) fn outcome(failure: &Failure) -> ExtenderOutcome {
    match failure {
        Failure::Invalid(_) | Failure::TooLarge { .. } | Failure::Cut(_) => {
            ExtenderOutcome::Invalid
        }
        Failure::Refused(_) => ExtenderOutcome::Refused,
        Failure::NotReady(_) | Failure::Busy { .. } | Failure::Broken => {
            ExtenderOutcome::Unavailable
        }
    }
}

/// Status code for the audit line: the HTTP status does not show how a bind ended.
fn code(failure: &Failure) -> Code {
    match failure {
        Failure::Invalid(_) => Code::InvalidArgument,
        Failure::Refused(_) => Code::FailedPrecondition,
        Failure::NotReady(_) => Code::Unavailable,
        Failure::Busy { .. } | Failure::TooLarge { .. } => Code::ResourceExhausted,
        Failure::Cut(_) => Code::DeadlineExceeded,
        Failure::Broken => Code::Internal,
    }
}

/// The HTTP response to a failed call (S-EXT-2).
///
/// kube-scheduler shows the `Error` of a 200 to filter and bind in the pod's event. Responses to prioritize and preempt
/// have no such field, and would read as "no score" and "no candidate": those fail by their status.
pub(super) fn response(failure: &Failure, verb: ExtenderVerb) -> Response {
    let has_error = matches!(verb, ExtenderVerb::Filter | ExtenderVerb::Bind);
    let status = match failure {
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
    text::string(&mut json, &escape::clipped(&failure.to_string()));
    json.push(b'}');
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Failure::Busy { retry_after } = failure {
        // In whole seconds, and at least one.
        let seconds = retry_after.as_secs_f64().ceil().max(1.0);
        if let Ok(seconds) = HeaderValue::from_str(&format!("{seconds:.0}")) {
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
    }
    response.extensions_mut().insert(code(failure));
    response
}
