//! Waiting: a call in a queue.

use std::time::Instant;

use crate::admission::user::User;

/// A call that waits for a worker.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    pub(super) ticket: u64,
    pub(super) user: User,
    pub(super) since: Instant,
    /// What tells the call that it has a worker.
    pub(super) worker: W,
}
