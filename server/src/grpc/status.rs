//! The gRPC status of a failed call: its code, its message and its google.rpc details.

use std::collections::HashMap;
use std::time::Duration;

use berth_engine::{CommitError, EngineError, Ground, PodKey, ReserveError};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::audit::ChangeError;
use crate::auth::AuthError;
use crate::escape::{presentable, presentable_path};
use crate::ledger::{GrantError, LedgerError};
use crate::service::{AssumptionError, CallError, undecodable};

/// Domain of `google.rpc.ErrorInfo`.
const DOMAIN: &str = "berth.dev";
/// Metadata of a status that says that another replica answers this: the one that commits, or the one of a name.
pub(super) const ELSEWHERE: &str = "berth-elsewhere";
pub(super) const COMMITTER: &str = "committer";
pub(super) const REPLICA: &str = "replica=";
/// Time after which a failed ledger may work again: faults are looked after every few hundred milliseconds to seconds, and
/// another replica commits some seconds after one is lost.
const LEDGER_RETRY: Duration = Duration::from_secs(1);

/// Time after which the journal may be free: replaying takes seconds.
const JOURNAL_RETRY: Duration = Duration::from_secs(5);

impl From<CallError> for Status {
    fn from(error: CallError) -> Status {
        if let CallError::AtCommitter { code, message, details } = error {
            // The other replica has escaped the message already.
            return Status::with_details(code, message, details.into());
        }
        let message = presentable(&error.to_string());
        let mut status = Status::with_error_details(error.code(), message, details(&error));
        let elsewhere = match &error {
            CallError::NotCommitter { .. } => Some(MetadataValue::from_static(COMMITTER)),
            // Names of replicas are visible ASCII; another text names none.
            CallError::SessionElsewhere { replica, is_gone: false } => {
                MetadataValue::try_from(format!("{REPLICA}{replica}")).ok()
            }
            _ => None,
        };
        if let Some(elsewhere) = elsewhere {
            status.metadata_mut().insert(ELSEWHERE, elsewhere);
        }
        status
    }
}

fn details(error: &CallError) -> ErrorDetails {
    let mut details = ErrorDetails::new();
    if let Some((field, reason)) = error.violation() {
        details.add_bad_request_violation(presentable_path(field), presentable(&reason));
    }
    match error {
        CallError::Engine(EngineError::AlreadyPlaced { pod, node }) => {
            let (name, description) = (pod.to_string(), format!("on node `{node}`"));
            details.set_resource_info("Pod", presentable(&name), "", presentable(&description));
        }
        CallError::Assumption(AssumptionError::Over { pod }) => {
            details.set_resource_info("Pod", presentable(&pod.to_string()), "", "is on no node");
        }
        CallError::NoSuchSession { id } => {
            details.set_resource_info("Session", presentable(id), "", "is not open");
        }
        CallError::NoSuchPod { pod, reason } => {
            details.set_resource_info("Pod", presentable(pod), "", *reason);
        }
        CallError::NoSuchDecision { id } => {
            details.set_resource_info("Decision", presentable(id), "", "is not in the journal");
        }
        CallError::JournalBusy => {
            details.set_retry_info(Some(JOURNAL_RETRY));
        }
        CallError::Overloaded(overloaded) => {
            details.set_retry_info(Some(overloaded.retry_after));
        }
        CallError::Audit(ChangeError::QueueFull { retry_after }) => {
            details.set_retry_info(Some(*retry_after));
        }
        CallError::NotCommitter { .. }
        | CallError::NotGranted(
            GrantError::OtherTerm | GrantError::Ledger(LedgerError::Unavailable { .. }),
        ) => {
            details.set_retry_info(Some(LEDGER_RETRY));
        }
        _ => {}
    }
    if let Some(Info { reason, metadata }) = info(error) {
        let metadata = metadata.into_iter().map(|(key, value)| (key, presentable(&value)));
        details.set_error_info(reason, DOMAIN, metadata.collect::<HashMap<_, _>>());
    }
    details
}

/// `google.rpc.ErrorInfo` before its values are made presentable.
struct Info {
    reason: &'static str,
    metadata: Vec<(String, String)>,
}

impl Info {
    fn new<const N: usize>(reason: &'static str, metadata: [(&str, String); N]) -> Option<Info> {
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        Some(Info { reason, metadata })
    }
}

fn info(error: &CallError) -> Option<Info> {
    match error {
        CallError::Engine(error) => engine_info(error),
        CallError::NotAdmitted(error) => error.missing.as_ref().and_then(|missing| {
            let (kind, name) = (missing.kind.name().to_owned(), missing.name.to_string());
            Info::new("OBJECT_MISSING", [("kind", kind), ("name", name)])
        }),
        CallError::SnapshotTooLarge { limit } => {
            Info::new("SNAPSHOT_TOO_LARGE", [("max_objects", limit.to_string())])
        }
        CallError::TooMany { what, limit } => Info::new(
            "REQUEST_TOO_LARGE",
            [(&*format!("max_{}", what.replace(' ', "_")), limit.to_string())],
        ),
        CallError::MessageTooLarge { limit } => {
            Info::new("MESSAGE_TOO_LARGE", [("max_bytes", limit.to_string())])
        }
        CallError::NoJournal => Info::new("NO_JOURNAL", []),
        CallError::JournalBusy => Info::new("JOURNAL_BUSY", []),
        CallError::TooManySessions { limit } => {
            Info::new("TOO_MANY_SESSIONS", [("max_sessions", limit.to_string())])
        }
        CallError::TooManyWatchers { limit } => {
            Info::new("TOO_MANY_WATCHERS", [("max_watchers", limit.to_string())])
        }
        CallError::SessionTooLarge { limit } => {
            Info::new("SESSION_TOO_LARGE", [("max_changes", limit.to_string())])
        }
        CallError::Assumption(error) => assumption_info(error),
        CallError::NotCommitted(error) => commit_info(error),
        CallError::NotReserved(error) => reserve_info(error),
        CallError::NotGranted(error) => grant_info(error),
        CallError::NotCommitter { .. } => Info::new("NOT_COMMITTER", []),
        CallError::SessionElsewhere { replica, .. } => {
            Info::new("SESSION_LOST", [("replica", replica.clone())])
        }
        CallError::Auth(AuthError::Unauthenticated { .. }) => Info::new("UNAUTHENTICATED", []),
        CallError::Auth(AuthError::PermissionDenied { role, .. }) => {
            Info::new("ROLE_MISSING", [("role", role.to_string())])
        }
        CallError::Audit(ChangeError::LogUnwritable) => Info::new("NOT_AUDITED", []),
        CallError::RequestIdReused { id } => {
            Info::new("REQUEST_ID_REUSED", [("request_id", id.clone())])
        }
        // Its status has its details.
        CallError::AtCommitter { .. }
        | CallError::OutOfOrder { .. }
        | CallError::Undecodable { .. }
        | CallError::TookTooLong { .. }
        | CallError::DeadlineExceeded
        | CallError::Overloaded(_)
        | CallError::Audit(ChangeError::QueueFull { .. } | ChangeError::CallEnded)
        | CallError::NoSuchSession { .. }
        | CallError::NoSuchPod { .. }
        | CallError::NoSuchDecision { .. }
        | CallError::JournalDamaged { .. }
        | CallError::NotReady(_)
        | CallError::NoSuchMethod { .. }
        | CallError::Draining
        | CallError::Broken => None,
    }
}

fn engine_info(error: &EngineError) -> Option<Info> {
    match error {
        EngineError::SchedulerError { message } => {
            Info::new("SCHEDULER_ERROR", [("message", message.clone())])
        }
        EngineError::Model(_) | EngineError::AlreadyPlaced { .. } | EngineError::Cancelled => None,
    }
}

fn assumption_info(error: &AssumptionError) -> Option<Info> {
    match error {
        AssumptionError::Over { .. } => None,
        AssumptionError::OtherToken { pod, .. } => {
            Info::new("ASSUMPTION_TOKEN_MISMATCH", [("pod", pod.to_string())])
        }
        AssumptionError::OtherPod { pod, known, .. } => {
            let known = known.to_string();
            Info::new("POD_UID_MISMATCH", [("pod", pod.to_string()), ("uid", known)])
        }
        AssumptionError::Reported { pod, node } => pod_info("POD_REPORTED", pod, node, None),
    }
}

fn commit_info(error: &CommitError) -> Option<Info> {
    match error {
        CommitError::NotAFork => Info::new("NOT_A_FORK", []),
        CommitError::AlreadyCommitted => Info::new("ALREADY_COMMITTED", []),
        CommitError::Hypothetical { pod, node, ground } => {
            pod_info("HYPOTHETICAL", pod, node, Some(ground))
        }
        CommitError::Changed { pod, node, ground } => pod_info("CHANGED", pod, node, Some(ground)),
        CommitError::AlreadyPlaced { pod, node } => pod_info("ALREADY_PLACED", pod, node, None),
    }
}

fn reserve_info(error: &ReserveError) -> Option<Info> {
    const REASON: &str = "POD_DOES_NOT_FIT";
    match error {
        ReserveError::DoesNotFit { pod, node, .. } => pod_info(REASON, pod, node, None),
        ReserveError::AnotherPod { pod } => Info::new(REASON, [("pod", pod.to_string())]),
        ReserveError::Engine(error) => engine_info(error),
    }
}

/// Error info that names the pod and the node at which a commit stopped.
fn pod_info(
    reason: &'static str,
    pod: &PodKey,
    node: &str,
    ground: Option<&Ground>,
) -> Option<Info> {
    let mut info = Info::new(reason, [("pod", pod.to_string()), ("node", node.to_owned())])?;
    info.metadata.extend(ground.map(|ground| ("ground".to_owned(), ground.to_string())));
    Some(info)
}

fn grant_info(error: &GrantError) -> Option<Info> {
    match error {
        GrantError::Request(_) | GrantError::NotOwner { .. } => None,
        GrantError::Contradicted(claim) => {
            Info::new("CLAIM_CONTRADICTED", [("field", claim.field.to_owned())])
        }
        GrantError::Contended { key } => {
            Info::new("LEDGER_CONTENDED", [("record", key.as_str().to_owned())])
        }
        GrantError::TooManyHolders { limit } => {
            Info::new("TOO_MANY_HOLDERS", [("max_holders", limit.to_string())])
        }
        GrantError::Full { limit } => {
            Info::new("LEDGER_FULL", [("max_records", limit.to_string())])
        }
        GrantError::TooLarge { limit } => {
            Info::new("LEDGER_FULL", [("max_bytes", limit.to_string())])
        }
        GrantError::RecordTooLarge { limit } => {
            Info::new("RECORD_TOO_LARGE", [("max_bytes", limit.to_string())])
        }
        GrantError::OtherTerm => Info::new("NOT_COMMITTER", []),
        GrantError::Ledger(LedgerError::Unavailable { .. }) => Info::new("LEDGER_UNAVAILABLE", []),
        GrantError::Ledger(LedgerError::Damaged { .. }) => Info::new("LEDGER_DAMAGED", []),
    }
}

/// The status for a failure in the transport, before any handler got the message.
///
/// The transport's own texts name its internals, and its codes (`OUT_OF_RANGE` for a message too large, `INTERNAL` for
/// bytes that do not decode) would mislead a caller.
pub(super) fn of_transport(status: Status, max_message_bytes: usize) -> Status {
    match status.code() {
        Code::OutOfRange => CallError::MessageTooLarge { limit: max_message_bytes }.into(),
        Code::Internal => match undecodable::of_decoder(status.message(), None) {
            Some(error) => error.into(),
            None => status,
        },
        _ => status,
    }
}

#[cfg(test)]
mod tests;
