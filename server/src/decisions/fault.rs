//! Faults of the journal, as answers.

use std::io;

use crate::replay::ReplayError;
use crate::service::CallError;

pub(super) fn unreadable(error: &io::Error) -> CallError {
    CallError::JournalDamaged { reason: error.to_string() }
}

pub(super) fn failed(error: ReplayError) -> CallError {
    match error {
        ReplayError::Cancelled => CallError::DeadlineExceeded,
        error => CallError::JournalDamaged { reason: error.to_string() },
    }
}
