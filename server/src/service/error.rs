//! CallError: every way in which a call can fail, over any transport.

use std::time::Duration;

use berth_engine::{CommitError, EngineError, ModelError, ReserveError};
use berth_proto::berth_v1::PlaceError;
use tonic::{Code, Status};

use super::assumptions::error::AssumptionError;
use crate::admission::{AdmissionError, Overloaded};
use crate::audit::ChangeError;
use crate::auth::{AuthError, Role};
use crate::escape::{presentable, presentable_path};
use crate::expander::node_group_option::ReadError;
use crate::feed::NotReady;
use crate::ledger::{GrantError, LedgerError};

/// Failure of a call, or of one pod in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The engine refused the request.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Admission refused the pod.
    #[error(transparent)]
    NotAdmitted(berth_engine::AdmissionError),
    /// Messages of a stream in an impossible order.
    #[error("message out of order: {reason}")]
    OutOfOrder {
        /// The expected order.
        reason: &'static str,
    },
    /// A snapshot grows beyond its limit.
    #[error("the snapshot holds more than {limit} objects")]
    SnapshotTooLarge {
        /// The limit.
        limit: usize,
    },
    /// A request holds more items of one kind than its limit.
    #[error("the request holds more than {limit} {what}")]
    TooMany {
        /// The kind of item, in the plural.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A message beyond the limit on its size.
    #[error("the message is larger than the limit of {limit} bytes")]
    MessageTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Bytes that are not the message they should be.
    #[error("the message cannot be decoded: {reason}")]
    Undecodable {
        /// The decoder's reason, with the path of the field.
        reason: String,
    },
    /// The caller's deadline has passed.
    #[error("the deadline has passed")]
    DeadlineExceeded,
    /// The call took longer than the server allows any call.
    #[error("the call took longer than the server's limit of {limit:?}")]
    TookTooLong {
        /// The limit.
        limit: Duration,
    },
    /// A request id that was used for another request.
    #[error(
        "the request id `{id}` was used for another request of this method: an id stands for one request"
    )]
    RequestIdReused {
        /// The id from the request.
        id: String,
    },
    /// The caller is unknown, or lacks a role.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The server is overloaded and would not answer in time.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// A change whose audit line would be lost.
    #[error(transparent)]
    Audit(ChangeError),
    /// A session that was never opened, was closed or has expired.
    #[error("session `{id}` not found: it was never opened, was closed or has expired")]
    NoSuchSession {
        /// The id from the request.
        id: String,
    },
    /// A session that another replica has, or had.
    #[error("the session was opened at replica `{}`, which {}", presentable(replica), match is_gone { true => "was started again since", false => "is gone" })]
    SessionElsewhere {
        /// The replica.
        replica: String,
        /// Whether the replica is this one, which was started again.
        is_gone: bool,
    },
    /// A pod that a request names by its key, and that cannot be asked about.
    #[error("pod `{pod}` not found: {reason}")]
    NoSuchPod {
        /// `NAMESPACE/NAME` from the request.
        pod: String,
        /// The reason.
        reason: &'static str,
    },
    /// The limit on watchers is reached.
    #[error("limit of {limit} watching streams reached")]
    TooManyWatchers {
        /// The limit.
        limit: usize,
    },
    /// A call about recorded decisions, of which this server has none.
    #[error("this server records no decisions; `berth serve --journal DIR` does")]
    NoJournal,
    /// A decision that is not in the journal.
    #[error(
        "decision `{id}` not found: it was never recorded, or its segment of the journal is removed"
    )]
    NoSuchDecision {
        /// The id from the request.
        id: String,
    },
    /// Another call makes a part of the journal again.
    #[error("another call replays the journal or compares policies on it")]
    JournalBusy,
    /// The journal cannot be read.
    #[error("the journal cannot be read: {reason}")]
    JournalDamaged {
        /// Why.
        reason: String,
    },
    /// The limit on open sessions is reached.
    #[error("session limit of {limit} reached")]
    TooManySessions {
        /// The limit.
        limit: usize,
    },
    /// A session grows beyond its limit.
    #[error("the session would hold more than {limit} changes")]
    SessionTooLarge {
        /// The limit.
        limit: usize,
    },
    /// A session was not committed; the cluster is unchanged.
    #[error(transparent)]
    NotCommitted(CommitError),
    /// The ledger refused the grant, or its outcome is unknown.
    #[error(transparent)]
    NotGranted(GrantError),
    /// No cluster is loaded yet, or it is being replaced.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// A call about an assumption that is over, or is not the one that the caller means.
    #[error(transparent)]
    Assumption(#[from] AssumptionError),
    /// Decisions that were made before, of which one does not hold.
    #[error(transparent)]
    NotReserved(ReserveError),
    /// The replica that decides has refused what this one has asked of it.
    #[error("{message}")]
    AtCommitter {
        /// Its status.
        code: Code,
        /// Its message.
        message: String,
        /// Its `google.rpc.Status`, encoded.
        details: Vec<u8>,
    },
    /// Another replica decides this, or nobody does now.
    #[error("{}", not_committer(committer.as_deref()))]
    NotCommitter {
        /// Name of the replica that does, if it is known.
        committer: Option<String>,
    },
    /// A method or service that this server does not have.
    #[error("this server has no method `{path}`")]
    NoSuchMethod {
        /// `/SERVICE/METHOD` from the request.
        path: String,
    },
    /// The server is about to stop.
    #[error("the server is draining")]
    Draining,
    /// A decision ended in a panic: a bug in Berth.
    #[error("internal error: the call could not be completed")]
    Broken,
}

fn not_committer(committer: Option<&str>) -> String {
    match committer {
        Some(name) => format!("replica `{}` decides this and cannot be reached", presentable(name)),
        None => "no replica commits now: nothing is assumed or granted until one does".to_owned(),
    }
}

impl From<AdmissionError> for CallError {
    fn from(error: AdmissionError) -> CallError {
        match error {
            AdmissionError::Overloaded(overloaded) => CallError::Overloaded(overloaded),
            AdmissionError::DeadlineExceeded => CallError::DeadlineExceeded,
        }
    }
}

impl From<ChangeError> for CallError {
    fn from(error: ChangeError) -> CallError {
        match error {
            ChangeError::CallEnded => CallError::DeadlineExceeded,
            error => CallError::Audit(error),
        }
    }
}

impl From<ModelError> for CallError {
    fn from(error: ModelError) -> CallError {
        CallError::Engine(EngineError::Model(error))
    }
}

impl From<ReserveError> for CallError {
    fn from(error: ReserveError) -> CallError {
        match error {
            ReserveError::Engine(error) => error.into(),
            ReserveError::AnotherPod { .. } | ReserveError::DoesNotFit { .. } => {
                CallError::NotReserved(error)
            }
        }
    }
}

impl From<Status> for CallError {
    /// What the replica that decides has answered.
    fn from(status: Status) -> CallError {
        let (message, details) = (status.message().to_owned(), status.details().to_vec());
        CallError::AtCommitter { code: status.code(), message, details }
    }
}

impl From<GrantError> for CallError {
    fn from(error: GrantError) -> CallError {
        match error {
            GrantError::Request(error) => error.into(),
            GrantError::NotOwner { user } => {
                CallError::Auth(AuthError::PermissionDenied { user, role: Role::Admin })
            }
            error => CallError::NotGranted(error),
        }
    }
}

impl From<ReadError> for CallError {
    fn from(error: ReadError) -> CallError {
        match error {
            ReadError::Malformed(reason) => CallError::Undecodable { reason },
            ReadError::TooMany { what, limit } => CallError::TooMany { what, limit },
        }
    }
}

impl CallError {
    /// A bad field of the request.
    pub(crate) fn field(field: impl Into<String>, reason: impl Into<String>) -> CallError {
        CallError::from(ModelError { field: field.into(), reason: reason.into() })
    }

    /// Maps an engine error. The engine cancels a decision whose caller is gone; this is reported as an expired
    /// deadline.
    pub(crate) fn undecided(error: EngineError) -> CallError {
        match error {
            EngineError::Cancelled => CallError::DeadlineExceeded,
            error => CallError::Engine(error),
        }
    }

    /// The status code, shared by gRPC, batch items and the audit log.
    pub(crate) fn code(&self) -> Code {
        match self {
            CallError::Engine(error) => match error {
                EngineError::Model(_) => Code::InvalidArgument,
                EngineError::SchedulerError { .. } => Code::FailedPrecondition,
                EngineError::AlreadyPlaced { .. } => Code::AlreadyExists,
                EngineError::Cancelled => Code::Cancelled,
            },
            CallError::NotAdmitted(error) if error.missing.is_some() => Code::FailedPrecondition,
            CallError::NotAdmitted(_)
            | CallError::OutOfOrder { .. }
            | CallError::Undecodable { .. } => Code::InvalidArgument,
            CallError::SnapshotTooLarge { .. }
            | CallError::TooMany { .. }
            | CallError::MessageTooLarge { .. }
            | CallError::TooManySessions { .. }
            | CallError::TooManyWatchers { .. }
            | CallError::SessionTooLarge { .. }
            | CallError::JournalBusy
            | CallError::Overloaded(_)
            | CallError::Audit(ChangeError::QueueFull { .. }) => Code::ResourceExhausted,
            CallError::Auth(AuthError::Unauthenticated { .. }) => Code::Unauthenticated,
            CallError::Auth(AuthError::PermissionDenied { .. }) => Code::PermissionDenied,
            CallError::NoSuchSession { .. }
            | CallError::NoSuchPod { .. }
            | CallError::NoSuchDecision { .. }
            | CallError::Assumption(AssumptionError::Over { .. }) => Code::NotFound,
            CallError::Assumption(
                AssumptionError::OtherToken { .. }
                | AssumptionError::OtherPod { .. }
                | AssumptionError::Reported { .. },
            ) => Code::FailedPrecondition,
            CallError::NotCommitted(_) | CallError::NotReserved(_) => Code::FailedPrecondition,
            CallError::AtCommitter { code, .. } => *code,
            CallError::NotGranted(error) => match error {
                GrantError::Request(_) => Code::InvalidArgument,
                GrantError::Contradicted(_) => Code::FailedPrecondition,
                GrantError::NotOwner { .. } => Code::PermissionDenied,
                GrantError::Contended { .. } => Code::Aborted,
                GrantError::TooManyHolders { .. }
                | GrantError::Full { .. }
                | GrantError::TooLarge { .. }
                | GrantError::RecordTooLarge { .. } => Code::ResourceExhausted,
                GrantError::OtherTerm | GrantError::Ledger(LedgerError::Unavailable { .. }) => {
                    Code::Unavailable
                }
                GrantError::Ledger(LedgerError::Damaged { .. }) => Code::DataLoss,
            },
            CallError::DeadlineExceeded
            | CallError::Audit(ChangeError::CallEnded)
            | CallError::TookTooLong { .. } => Code::DeadlineExceeded,
            CallError::RequestIdReused { .. }
            | CallError::SessionElsewhere { .. }
            | CallError::NoJournal => Code::FailedPrecondition,
            CallError::JournalDamaged { .. } => Code::DataLoss,
            CallError::NotReady(NotReady::FedByApiServer) => Code::FailedPrecondition,
            CallError::Draining
            | CallError::NotReady(_)
            | CallError::NotCommitter { .. }
            | CallError::Audit(ChangeError::LogUnwritable) => Code::Unavailable,
            CallError::NoSuchMethod { .. } => Code::Unimplemented,
            CallError::Broken => Code::Internal,
        }
    }

    /// Field path and reason, where the error names a field.
    pub(crate) fn violation(&self) -> Option<(&str, String)> {
        match self {
            CallError::Engine(EngineError::Model(error))
            | CallError::NotGranted(GrantError::Request(error)) => {
                Some((&error.field, error.reason.clone()))
            }
            CallError::NotAdmitted(error) => Some((&error.field, error.reason.clone())),
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
            | CallError::NoSuchPod { .. }
            | CallError::NoJournal
            | CallError::NoSuchDecision { .. }
            | CallError::JournalBusy
            | CallError::JournalDamaged { .. }
            | CallError::TooManyWatchers { .. }
            | CallError::NoSuchSession { .. }
            | CallError::SessionElsewhere { .. }
            | CallError::TooManySessions { .. }
            | CallError::SessionTooLarge { .. }
            | CallError::Assumption(_)
            | CallError::NotCommitted(_)
            | CallError::NotReserved(_)
            | CallError::AtCommitter { .. }
            | CallError::NotGranted(_)
            | CallError::Auth(_)
            | CallError::Overloaded(_)
            | CallError::Audit(_)
            | CallError::TookTooLong { .. }
            | CallError::RequestIdReused { .. }
            | CallError::DeadlineExceeded
            | CallError::NotReady(_)
            | CallError::NotCommitter { .. }
            | CallError::NoSuchMethod { .. }
            | CallError::Draining
            | CallError::Broken => None,
        }
    }

    /// The error of one item of a batch, in wire form.
    pub(crate) fn to_place_error(&self) -> PlaceError {
        PlaceError {
            code: self.code() as i32,
            message: presentable(&self.to_string()),
            field: self.violation().map(|(field, _)| presentable_path(field)).unwrap_or_default(),
        }
    }
}
