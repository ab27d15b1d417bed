//! Activity: what a connection has been used for, which decides how soon it makes room for others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// What a connection has been used for.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    user: OnceLock<Arc<str>>,
    n_under_way: AtomicU32,
    last_used: Mutex<Option<Instant>>,
}

impl Activity {
    /// User of the first call; `None` before it.
    pub(super) fn user(&self) -> Option<&Arc<str>> {
        self.user.get()
    }

    /// Whether no call is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.n_under_way.load(Ordering::Relaxed) == 0
    }

    /// End of the last call that has ended.
    pub(super) fn last_used(&self) -> Option<Instant> {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, user: &Arc<str>) {
        if self.user.get().is_none() {
            // Another call may be faster: then the connection is that call's user's.
            drop(self.user.set(user.clone()));
        }
        self.n_under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, now: Instant) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.n_under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
