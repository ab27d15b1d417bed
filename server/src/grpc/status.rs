//! Every way in which a call can fail, and what the wire says of it: one exhaustive match, with google.rpc details.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use berth_engine::{CommitError, EngineError, Ground, ModelError, PodKey};
use berth_proto::berth_v1::PlaceError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::auth::Role;
use crate::escape::printable;
use crate::feed::NotReady;
use crate::ledger::{GrantError, LedgerError};

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
    /// A request holds more of something than its bound.
    #[error("the request holds more than {limit} {what}")]
    TooMany {
        /// What there is too much of, in the plural.
        what: &'static str,
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
    /// The call took longer than any may.
    #[error("the call took longer than the server's limit of {limit:?}")]
    TookTooLong {
        /// The bound.
        limit: Duration,
    },
    /// A request id that stands for another request.
    #[error(
        "the request id `{id}` was used for another request of this method: an id stands for one request"
    )]
    RequestIdReused {
        /// The id as it was given.
        id: String,
    },
    /// The caller did not prove who it is, or not well.
    #[error("who calls is not known: {reason}")]
    Unauthenticated {
        /// What is missing or wrong; never the credential.
        reason: String,
    },
    /// The caller is known and may not do this.
    #[error("`{user}` may not do this: it needs the role `{role}`")]
    PermissionDenied {
        /// As its credential names it.
        user: String,
        /// The least role that would do.
        role: Role,
    },
    /// There is more to do than can be done in time.
    #[error("the server is overloaded: {reason}")]
    Overloaded {
        /// What there is too much of.
        reason: &'static str,
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// A change that would leave no line in the audit log.
    #[error("nothing may be changed now: the audit log cannot be written, see `/readyz`")]
    NotAudited,
    /// A session that was never opened, was closed or has expired.
    #[error("there is no session `{id}`: it was never opened, was closed or has expired")]
    NoSuchSession {
        /// The id as it was given.
        id: String,
    },
    /// As many sessions are open as may be.
    #[error("{limit} sessions are open, and more may not be")]
    TooManySessions {
        /// The bound.
        limit: usize,
    },
    /// A session grows beyond its bound.
    #[error("the session would hold more than {limit} changes")]
    SessionTooLarge {
        /// The bound.
        limit: usize,
    },
    /// Nothing of a session was committed.
    #[error(transparent)]
    NotCommitted(CommitError),
    /// The ledger was not changed, or is not known to have been.
    #[error(transparent)]
    NotGranted(GrantError),
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

impl From<GrantError> for CallError {
    fn from(error: GrantError) -> CallError {
        match error {
            GrantError::Request(error) => error.into(),
            error => CallError::NotGranted(error),
        }
    }
}

impl CallError {
    /// A bad field of the request.
    pub(crate) fn field(field: impl Into<String>, reason: impl Into<String>) -> CallError {
        CallError::from(ModelError { field: field.into(), reason: reason.into() })
    }

    /// Why the engine did not decide. It gives up where nobody waits any more, which is a deadline to whoever still looks.
    pub(crate) fn undecided(error: EngineError) -> CallError {
        match error {
            EngineError::Cancelled => CallError::DeadlineExceeded,
            error => CallError::Engine(error),
        }
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
            | CallError::TooMany { .. }
            | CallError::MessageTooLarge { .. }
            | CallError::TooManySessions { .. }
            | CallError::SessionTooLarge { .. }
            | CallError::Overloaded { .. } => Code::ResourceExhausted,
            CallError::Unauthenticated { .. } => Code::Unauthenticated,
            CallError::PermissionDenied { .. } => Code::PermissionDenied,
            CallError::NoSuchSession { .. } => Code::NotFound,
            CallError::NotCommitted(_) => Code::FailedPrecondition,
            CallError::NotGranted(error) => match error {
                GrantError::Request(_) => Code::InvalidArgument,
                GrantError::Contended { .. } => Code::Aborted,
                GrantError::TooManyHolders { .. } | GrantError::Full { .. } => {
                    Code::ResourceExhausted
                }
                GrantError::Ledger(LedgerError::Unavailable { .. }) => Code::Unavailable,
                GrantError::Ledger(LedgerError::Damaged { .. }) => Code::DataLoss,
            },
            CallError::DeadlineExceeded | CallError::TookTooLong { .. } => Code::DeadlineExceeded,
            CallError::RequestIdReused { .. } => Code::FailedPrecondition,
            CallError::NotReady(NotReady::FedByApiServer) => Code::FailedPrecondition,
            CallError::Draining | CallError::NotReady(_) | CallError::NotAudited => {
                Code::Unavailable
            }
            CallError::NoSuchMethod { .. } => Code::Unimplemented,
            CallError::Broken => Code::Internal,
        }
    }

    /// Field path and reason, for errors that have a field.
    fn violation(&self) -> Option<(&str, String)> {
        match self {
            CallError::Engine(EngineError::Model(error))
            | CallError::NotGranted(GrantError::Request(error)) => {
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
            | CallError::TooMany { .. }
            | CallError::MessageTooLarge { .. }
            | CallError::NoSuchSession { .. }
            | CallError::TooManySessions { .. }
            | CallError::SessionTooLarge { .. }
            | CallError::NotCommitted(_)
            | CallError::NotGranted(_)
            | CallError::Unauthenticated { .. }
            | CallError::PermissionDenied { .. }
            | CallError::Overloaded { .. }
            | CallError::NotAudited
            | CallError::TookTooLong { .. }
            | CallError::RequestIdReused { .. }
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
        let mut info = |reason: &str, metadata: &[(&str, String)]| {
            let metadata: HashMap<String, String> = metadata
                .iter()
                .map(|(key, value)| ((*key).to_owned(), presentable(value)))
                .collect();
            details.set_error_info(reason, DOMAIN, metadata);
        };
        match self {
            CallError::Engine(EngineError::NotEvaluated { plugin, .. }) => {
                info("PLUGIN_NOT_EVALUATED", &[("plugin", plugin.name().to_owned())]);
            }
            CallError::Engine(EngineError::SchedulerError { message }) => {
                info("SCHEDULER_ERROR", &[("message", message.clone())])
            }
            CallError::Engine(EngineError::AlreadyPlaced { pod, node }) => {
                let (name, place) = (pod.to_string(), format!("on node `{node}`"));
                details.set_resource_info("Pod", presentable(&name), "", presentable(&place));
            }
            CallError::SnapshotTooLarge { limit } => {
                info("SNAPSHOT_TOO_LARGE", &[("max_objects", limit.to_string())])
            }
            CallError::TooMany { what, limit } => {
                info("REQUEST_TOO_LARGE", &[(&format!("max_{what}"), limit.to_string())])
            }
            CallError::MessageTooLarge { limit } => {
                info("MESSAGE_TOO_LARGE", &[("max_bytes", limit.to_string())])
            }
            CallError::NoSuchSession { id } => {
                details.set_resource_info("Session", presentable(id), "", "is not open");
            }
            CallError::TooManySessions { limit } => {
                info("TOO_MANY_SESSIONS", &[("max_sessions", limit.to_string())])
            }
            CallError::NotCommitted(error) => match error {
                CommitError::NotAFork => info("NOT_A_FORK", &[]),
                CommitError::AlreadyCommitted => info("ALREADY_COMMITTED", &[]),
                CommitError::Hypothetical { pod, node, ground } => {
                    info("HYPOTHETICAL", &at(pod, node, Some(ground)));
                }
                CommitError::Changed { pod, node, ground } => {
                    info("CHANGED", &at(pod, node, Some(ground)));
                }
                CommitError::AlreadyPlaced { pod, node } => {
                    info("ALREADY_PLACED", &at(pod, node, None));
                }
            },
            CallError::NotGranted(error) => match error {
                GrantError::Request(_) => {}
                GrantError::Contended { key } => {
                    info("LEDGER_CONTENDED", &[("record", key.as_str().to_owned())]);
                }
                GrantError::TooManyHolders { limit } => {
                    info("TOO_MANY_HOLDERS", &[("max_holders", limit.to_string())])
                }
                GrantError::Full { limit } => {
                    info("LEDGER_FULL", &[("max_records", limit.to_string())])
                }
                GrantError::Ledger(LedgerError::Unavailable { .. }) => {
                    info("LEDGER_UNAVAILABLE", &[]);
                }
                GrantError::Ledger(LedgerError::Damaged { .. }) => info("LEDGER_DAMAGED", &[]),
            },
            CallError::SessionTooLarge { limit } => {
                info("SESSION_TOO_LARGE", &[("max_changes", limit.to_string())])
            }
            CallError::Unauthenticated { .. } => info("UNAUTHENTICATED", &[]),
            CallError::PermissionDenied { role, .. } => {
                info("ROLE_MISSING", &[("role", role.to_string())]);
            }
            CallError::NotAudited => info("NOT_AUDITED", &[]),
            CallError::Overloaded { retry_after, .. } => {
                details.set_retry_info(Some(*retry_after));
            }
            CallError::RequestIdReused { id } => {
                info("REQUEST_ID_REUSED", &[("request_id", id.clone())]);
            }
            CallError::Engine(EngineError::Model(_) | EngineError::Cancelled)
            | CallError::OutOfOrder { .. }
            | CallError::Undecodable { .. }
            | CallError::TookTooLong { .. }
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

/// Of which pod a commit says what: metadata of `google.rpc.ErrorInfo`.
fn at(pod: &PodKey, node: &str, ground: Option<&Ground>) -> Vec<(&'static str, String)> {
    let mut metadata = vec![("pod", pod.to_string()), ("node", node.to_owned())];
    metadata.extend(ground.map(|ground| ("ground", ground.to_string())));
    metadata
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
pub(crate) fn presentable(text: &str) -> String {
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
mod tests;
