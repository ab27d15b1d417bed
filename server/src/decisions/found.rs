//! Found: a recorded decision that was asked for by its id.

use std::ops::ControlFlow;
use std::path::Path;

use super::id::DecisionId;
use super::segment;
use crate::journal::directory;
use crate::replay::Attempted;
use crate::service::recorder::record::Start;
use crate::service::{CallError, Cancel};

/// A recorded decision.
pub(super) struct Found {
    pub(super) id: DecisionId,
    /// The first record of the segment of the journal that has the decision.
    pub(super) start: Start,
    /// The attempt that it is a part of.
    pub(super) attempted: Attempted,
}

impl Found {
    /// Finds a decision in the journal of a directory.
    ///
    /// # Errors
    /// [`CallError::NoSuchDecision`], a damaged segment, a caller that is gone.
    pub(super) fn of(
        directory: &Path,
        id: DecisionId,
        cancel: &Cancel,
    ) -> Result<Found, CallError> {
        let mut found = None;
        let path = directory::segment(directory, id.segment);
        segment::attempts(&path, cancel, |start, attempted| {
            if attempted.sequence < id.attempt {
                return Ok(ControlFlow::Continue(()));
            }
            found = Some(Found { id, start: start.clone(), attempted });
            Ok(ControlFlow::Break(()))
        })?;
        found
            .filter(|found| found.attempted.pods().nth(id.index).is_some())
            .ok_or_else(|| CallError::NoSuchDecision { id: id.to_string() })
    }
}
