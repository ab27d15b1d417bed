//! Failed calls as HTTP responses: the status of `google.rpc.Code`, and a JSON body with code, message and field.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::escape::{self, presentable, presentable_path};
use crate::http::body::Unread;
use crate::service::CallError;
use crate::telemetry::code_name;

/// Status for a caller that went away; it reads no response. Google's API design guide assigns this number.
const CLIENT_CLOSED_REQUEST: u16 = 499;
/// Reason in `google.rpc.ErrorInfo` of a message beyond the limit on its size.
const MESSAGE_TOO_LARGE: &str = "MESSAGE_TOO_LARGE";

/// Failure of a call over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    code: Code,
    message: String,
    /// Path of the bad field; empty where no field is bad.
    field: String,
    /// `google.rpc.ErrorInfo`: its reason, empty if there is none, and its metadata.
    reason: String,
    metadata: BTreeMap<String, String>,
    retry_after: Option<Duration>,
}

impl Failure {
    fn new(status: StatusCode, code: Code, message: impl AsRef<str>) -> Failure {
        Failure {
            status,
            code,
            message: presentable(message.as_ref()),
            field: String::new(),
            reason: String::new(),
            metadata: BTreeMap::new(),
            retry_after: None,
        }
    }

    /// A request that cannot be read.
    pub(crate) fn invalid(message: impl AsRef<str>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    /// A bad field of the request, or a bad query parameter.
    pub(crate) fn field(field: impl AsRef<str>, reason: impl AsRef<str>) -> Failure {
        let field = presentable_path(field.as_ref());
        let message = format!("`{field}`: {}", reason.as_ref());
        Failure { field, ..Failure::invalid(message) }
    }

    /// A body of a type that is not read.
    pub(crate) fn unsupported_type(reason: impl AsRef<str>) -> Failure {
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, reason)
    }

    /// A request that a page of another site sent from a browser.
    pub(crate) fn other_site() -> Failure {
        Failure::new(
            StatusCode::FORBIDDEN,
            Code::PermissionDenied,
            "a request of another site's page is refused: its `Origin` or `Sec-Fetch-Site` header names another site",
        )
    }

    /// A request to a server on loopback that names another machine.
    pub(crate) fn other_host() -> Failure {
        Failure::new(
            StatusCode::FORBIDDEN,
            Code::PermissionDenied,
            "the header `Host` names neither an address nor `localhost`: a server on loopback that asks nobody for a \
             credential answers no other name",
        )
    }

    /// A path without a call.
    pub(crate) fn no_such_path(path: &str) -> Failure {
        let message =
            format!("there is no call `{path}`; `/openapi.json` lists the calls under `/v1`");
        Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message)
    }

    /// A method of HTTP other than POST.
    pub(crate) fn only_post() -> Failure {
        let message = "this path takes POST only";
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, message)
    }

    /// A response that has no JSON form, such as a time after the year 9999.
    pub(crate) fn unwritable(reason: impl AsRef<str>) -> Failure {
        let message = format!("the response has no JSON form: {}", reason.as_ref());
        Failure::new(StatusCode::BAD_REQUEST, Code::OutOfRange, message)
    }

    /// The failure that a call's status describes.
    pub(crate) fn of_status(status: &Status) -> Failure {
        let details = status.get_error_details();
        let mut failure = Failure::new(http_status(status.code()), status.code(), status.message());
        if let Some(bad) = details.bad_request()
            && let Some(violation) = bad.field_violations.first()
        {
            violation.field.clone_into(&mut failure.field);
        }
        if let Some(info) = details.error_info() {
            info.reason.clone_into(&mut failure.reason);
            failure.metadata = info.metadata.clone().into_iter().collect();
        }
        failure.retry_after = details.retry_info().and_then(|info| info.retry_delay);
        if failure.reason == MESSAGE_TOO_LARGE {
            failure.status = StatusCode::PAYLOAD_TOO_LARGE;
        }
        failure
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The error in words.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The status with which the call ends inside of the server, where it is counted.
    pub(crate) fn to_status(&self) -> Status {
        Status::new(self.code, self.message.clone())
    }

    /// The HTTP response.
    pub(crate) fn response(&self) -> Response {
        let mut error = Map::new();
        error.insert("code".to_owned(), code_name(self.code as i32).into());
        error.insert("message".to_owned(), self.message.as_str().into());
        for (key, text) in [("field", &self.field), ("reason", &self.reason)] {
            if !text.is_empty() {
                error.insert(key.to_owned(), text.as_str().into());
            }
        }
        if !self.metadata.is_empty() {
            error.insert("metadata".to_owned(), json!(self.metadata));
        }
        let text = Value::from(Map::from_iter([("error".to_owned(), error.into())])).to_string();
        let mut response = Response::new(Body::from(escape::json(&text).into_owned() + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(delay) = self.retry_after {
            // In whole seconds, and at least one.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        match self.status {
            StatusCode::UNAUTHORIZED => {
                let bearer = HeaderValue::from_static("Bearer realm=\"berth\"");
                headers.insert(WWW_AUTHENTICATE, bearer);
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("POST"));
            }
            _ => {}
        }
        response
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        let field = error.violation().map(|(field, _)| presentable_path(field)).unwrap_or_default();
        let code = error.code();
        let mut failure = Failure::new(http_status(code), code, error.to_string());
        failure.field = field;
        match error {
            CallError::MessageTooLarge { .. } => failure.status = StatusCode::PAYLOAD_TOO_LARGE,
            CallError::Overloaded(overloaded) => {
                failure.retry_after = Some(overloaded.retry_after);
            }
            _ => {}
        }
        failure
    }
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Failure {
        match unread {
            Unread::TooLarge { limit } => CallError::MessageTooLarge { limit }.into(),
            Unread::TooMuch { limit } => Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                Code::ResourceExhausted,
                format!(
                    "the body has more than {limit} objects and lines: send it in parts, or over gRPC"
                ),
            ),
            Unread::Busy => Failure {
                retry_after: Some(Duration::from_secs(1)),
                ..Failure::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    Code::ResourceExhausted,
                    "too many large bodies are being read",
                )
            },
            Unread::Cut(reason) => Failure::new(
                StatusCode::REQUEST_TIMEOUT,
                Code::InvalidArgument,
                format!("the body did not arrive: {reason}"),
            ),
        }
    }
}

/// The HTTP status of a code, as `google/rpc/code.proto` maps them.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => {
            StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_status_keeps_its_details() {
        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(Duration::from_millis(1_200)));
        details.set_error_info("ROLE_MISSING", "berth.dev", [("role".to_owned(), "x".to_owned())]);
        details.add_bad_request_violation("pod.spec", "is bad");
        let status = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        let response = Failure::of_status(&status).response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "2");
        let failure = Failure::of_status(&status);
        assert_eq!((&*failure.field, &*failure.reason), ("pod.spec", "ROLE_MISSING"));
        assert_eq!(failure.metadata["role"], "x");
    }

    #[test]
    fn a_message_too_large_has_a_status_of_its_own() {
        let failure = Failure::from(CallError::MessageTooLarge { limit: 7 });
        assert_eq!(failure.response().status(), 413);
        assert_eq!(failure.to_status().code(), Code::ResourceExhausted);
    }
}
