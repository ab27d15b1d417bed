//! Every way in which a call can fail, and what the wire says of it: one exhaustive match, with google.rpc details.

use std::borrow::Cow;
use std::collections::HashMap;

use berth_engine::{EngineError, ModelError};
use berth_proto::berth_v1::PlaceError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::escape::printable;
use crate::feed::NotReady;

/// Domain of `google.rpc.ErrorInfo`.
const DOMAIN: &str = "berth.dev";

/// Why a call, or one pod of it, has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The engine refused it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Messages of a stream in an impossible order.
    #[error("message out of order: {reason}")]
    OutOfOrder {
        /// What was expected.
        reason: &'static str,
    },
    /// A snapshot grows beyond its bound.
    #[error("the snapshot holds more than {limit} objects")]
    SnapshotTooLarge {
        /// The bound.
        limit: usize,
    },
    /// A message beyond the bound on its size.
    #[error("the message is larger than the limit of {limit} bytes")]
    MessageTooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// Bytes that are not the message they should be.
    #[error("the message cannot be decoded: {reason}")]
    Undecodable {
        /// What the decoder said, with the path of the field.
        reason: String,
    },
    /// The caller's deadline has passed.
    #[error("the deadline has passed")]
    DeadlineExceeded,
    /// Too many calls wait already.
    #[error("too many calls are waiting")]
    Busy,
    /// The cluster is not there yet, or is being replaced.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// A method or service that this server does not have.
    #[error("this server has no method `{path}`")]
    NoSuchMethod {
        /// `/SERVICE/METHOD`, as asked for.
        path: String,
    },
    /// The server is about to stop.
    #[error("the server is draining")]
    Draining,
    /// A decision ended in a panic: an error of Berth's own.
    #[error("the call could not be completed because of an error inside the server")]
    Broken,
}

impl From<ModelError> for CallError {
    fn from(error: ModelError) -> CallError {
        CallError::Engine(EngineError::Model(error))
    }
}

impl CallError {
    /// A bad field of the request.
    pub(crate) fn field(field: impl Into<String>, reason: impl Into<String>) -> CallError {
        CallError::from(ModelError { field: field.into(), reason: reason.into() })
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            CallError::Engine(error) => match error {
                EngineError::Model(_) => Code::InvalidArgument,
                EngineError::NotEvaluated { .. } => Code::Unimplemented,
                EngineError::SchedulerError { .. } => Code::FailedPrecondition,
                EngineError::AlreadyPlaced { .. } => Code::AlreadyExists,
                EngineError::Cancelled => Code::Cancelled,
            },
            CallError::OutOfOrder { .. } | CallError::Undecodable { .. } => Code::InvalidArgument,
            CallError::SnapshotTooLarge { .. }
            | CallError::MessageTooLarge { .. }
            | CallError::Busy => Code::ResourceExhausted,
            CallError::DeadlineExceeded => Code::DeadlineExceeded,
            CallError::Draining | CallError::NotReady(_) => Code::Unavailable,
            CallError::NoSuchMethod { .. } => Code::Unimplemented,
            CallError::Broken => Code::Internal,
        }
    }

    /// Field path and reason, for errors that have a field.
    fn violation(&self) -> Option<(&str, String)> {
        match self {
            CallError::Engine(EngineError::Model(error)) => {
                Some((&error.field, error.reason.clone()))
            }
            CallError::Engine(EngineError::NotEvaluated { field, plugin }) => Some((
                field,
                format!("needs {}, which this version does not evaluate", plugin.name()),
            )),
            CallError::Engine(
                EngineError::SchedulerError { .. }
                | EngineError::AlreadyPlaced { .. }
                | EngineError::Cancelled,
            )
            | CallError::OutOfOrder { .. }
            | CallError::Undecodable { .. }
            | CallError::SnapshotTooLarge { .. }
            | CallError::MessageTooLarge { .. }
            | CallError::Busy
            | CallError::DeadlineExceeded
            | CallError::NotReady(_)
            | CallError::NoSuchMethod { .. }
            | CallError::Draining
            | CallError::Broken => None,
        }
    }

    fn details(&self) -> ErrorDetails {
        let mut details = ErrorDetails::new();
        if let Some((field, reason)) = self.violation() {
            details.add_bad_request_violation(presentable_path(field), presentable(&reason));
        }
        let mut info = |reason: &str, metadata: [(&str, String); 1]| {
            let metadata: HashMap<String, String> = metadata
                .into_iter()
                .map(|(key, value)| (key.to_owned(), presentable(&value)))
                .collect();
            details.set_error_info(reason, DOMAIN, metadata);
        };
        match self {
            CallError::Engine(EngineError::NotEvaluated { plugin, .. }) => {
                info("PLUGIN_NOT_EVALUATED", [("plugin", plugin.name().to_owned())]);
            }
            CallError::Engine(EngineError::SchedulerError { message }) => {
                info("SCHEDULER_ERROR", [("message", message.clone())])
            }
            CallError::Engine(EngineError::AlreadyPlaced { pod, node }) => {
                let (name, place) = (pod.to_string(), format!("on node `{node}`"));
                details.set_resource_info("Pod", presentable(&name), "", presentable(&place));
            }
            CallError::SnapshotTooLarge { limit } => {
                info("SNAPSHOT_TOO_LARGE", [("max_objects", limit.to_string())])
            }
            CallError::MessageTooLarge { limit } => {
                info("MESSAGE_TOO_LARGE", [("max_bytes", limit.to_string())])
            }
            CallError::Engine(EngineError::Model(_) | EngineError::Cancelled)
            | CallError::OutOfOrder { .. }
            | CallError::Undecodable { .. }
            | CallError::Busy
            | CallError::DeadlineExceeded
            | CallError::NotReady(_)
            | CallError::NoSuchMethod { .. }
            | CallError::Draining
            | CallError::Broken => {}
        }
        details
    }

    /// The same failure as one item of a batch.
    pub(crate) fn to_place_error(&self) -> PlaceError {
        PlaceError {
            code: self.code() as i32,
            message: presentable(&self.to_string()),
            field: self.violation().map(|(field, _)| presentable_path(field)).unwrap_or_default(),
        }
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Status {
        let message = presentable(&error.to_string());
        Status::with_error_details(error.code(), message, error.details())
    }
}

/// Most characters of one name or value from outside that an error repeats.
const MAX_QUOTED_CHARS: usize = 200;
/// Most bytes of one text of an error: a status travels in headers, and a caller's own transport refuses those of more
/// than a few kilobytes.
const MAX_TEXT_BYTES: usize = 1_000;

/// `text` as an error may carry it: what it quotes in backticks is clipped, and control characters are written out.
pub(super) fn presentable(text: &str) -> String {
    let mut parts = text.split('`').enumerate();
    let mut out = String::with_capacity(text.len().min(MAX_TEXT_BYTES));
    if let Some((_, first)) = parts.next() {
        out.push_str(first);
    }
    for (index, part) in parts {
        out.push('`');
        // Every second part stands between backticks.
        out.push_str(&if index % 2 == 1 { clip(part) } else { Cow::Borrowed(part) });
    }
    let mut out = printable(&out).into_owned();
    if out.len() > MAX_TEXT_BYTES {
        out.truncate(out.floor_char_boundary(MAX_TEXT_BYTES));
        out.push('…');
    }
    out
}

/// At most [`MAX_QUOTED_CHARS`], with a sign that there was more.
fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// A field path, which may hold keys from outside.
fn presentable_path(field: &str) -> String {
    printable(&clip(field)).into_owned()
}

/// The status for trouble that the transport found before any handler saw the message.
///
/// Its own words name its internals, and its codes (`OUT_OF_RANGE` for a message too large, `INTERNAL` for bytes that do
/// not decode) would send a caller looking in the wrong place.
pub(super) fn of_transport(status: Status, max_message_bytes: usize) -> Status {
    const UNDECODABLE: &str = "failed to decode Protobuf message: ";
    match status.code() {
        Code::OutOfRange => CallError::MessageTooLarge { limit: max_message_bytes }.into(),
        Code::Internal => match status.message().strip_prefix(UNDECODABLE) {
            Some(text) => undecodable(text).into(),
            None => status,
        },
        _ => status,
    }
}

/// What the decoder said, in terms of the request: the path from the outside in, as in every other error.
///
/// The decoder names `Message.field` from the inside out, each followed by `: `, and then its reason.
fn undecodable(text: &str) -> CallError {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once(": ") {
        let Some((message, field)) = head.split_once('.') else { break };
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !is_name(message) || !is_name(field) {
            break;
        }
        path.push(field);
        rest = tail;
    }
    path.reverse();
    let reason = rest.strip_prefix("invalid string value: ").unwrap_or(rest);
    let reason = match reason {
        "data is not UTF-8 encoded" => "the text is not UTF-8",
        other => other,
    };
    match path.is_empty() {
        true => CallError::Undecodable { reason: reason.to_owned() },
        false => CallError::Undecodable { reason: format!("`{}`: {reason}", path.join(".")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::{Plugin, PodKey};

    #[test]
    fn a_bad_field_is_named_in_the_details() {
        let status = Status::from(CallError::field("spec.priority", "must be small"));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "`spec.priority`: must be small");
        let details = status.get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        assert_eq!(
            (violations[0].field.as_str(), violations[0].description.as_str()),
            ("spec.priority", "must be small")
        );
    }

    #[test]
    fn engine_errors_have_the_documented_codes() {
        let check =
            |error: EngineError, code: Code| assert_eq!(CallError::from(error).code(), code);
        check(
            EngineError::NotEvaluated {
                field: "spec.volumes[0]".into(),
                plugin: Plugin::VolumeBinding,
            },
            Code::Unimplemented,
        );
        check(EngineError::SchedulerError { message: "x".into() }, Code::FailedPrecondition);
        check(
            EngineError::AlreadyPlaced { pod: PodKey::new("ns", "p"), node: "n".into() },
            Code::AlreadyExists,
        );
        check(EngineError::Cancelled, Code::Cancelled);
    }

    #[test]
    fn details_say_which_plugin_is_missing_and_where_the_pod_is() {
        let missing = EngineError::NotEvaluated {
            field: "spec.volumes[0]".into(),
            plugin: Plugin::VolumeBinding,
        };
        let status = Status::from(CallError::from(missing));
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["plugin"], "VolumeBinding");
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "spec.volumes[0]");
        let placed = EngineError::AlreadyPlaced { pod: PodKey::new("ns", "p"), node: "n1".into() };
        let status = Status::from(CallError::from(placed));
        assert_eq!(status.get_error_details().resource_info().unwrap().resource_name, "ns/p");
    }

    #[test]
    fn transport_trouble_becomes_the_callers_trouble() {
        let large = of_transport(Status::out_of_range("decoded message length too large"), 1024);
        assert_eq!(large.code(), Code::ResourceExhausted);
        assert_eq!(large.message(), "the message is larger than the limit of 1024 bytes");
        let garbage = of_transport(
            Status::internal(
                "failed to decode Protobuf message: ObjectMeta.name: Pod.metadata: PlaceRequest.pod: \
                 invalid string value: data is not UTF-8 encoded",
            ),
            1,
        );
        assert_eq!(
            (garbage.code(), garbage.message()),
            (
                Code::InvalidArgument,
                "the message cannot be decoded: `pod.metadata.name`: the text is not UTF-8"
            )
        );
        let plain = of_transport(Status::internal("failed to decode Protobuf message: a: b.c"), 1);
        assert_eq!(plain.message(), "the message cannot be decoded: a: b.c");
        assert_eq!(of_transport(Status::internal("other"), 1).code(), Code::Internal);
        assert_eq!(of_transport(Status::unavailable("gone"), 1).code(), Code::Unavailable);
    }

    #[test]
    fn texts_from_outside_are_clipped_and_escaped() {
        let long = "ж".repeat(20_000);
        let status =
            Status::from(CallError::field("spec.schedulerName", format!("no profile `{long}`")));
        assert_eq!(
            status.message(),
            format!("`spec.schedulerName`: no profile `{}…`", "ж".repeat(200))
        );
        let status = Status::from(CallError::field(format!("metadata.labels[{long}]"), long));
        assert!(status.message().len() < 1_100, "{}", status.message().len());
        assert!(status.details().len() < 2_500, "{}", status.details().len());
        let error = CallError::field("metadata.name", "`a\nb\u{1b}[31m` is bad").to_place_error();
        assert_eq!(error.message, "`metadata.name`: `a\\nb\\u{1b}[31m` is bad");
    }
}
