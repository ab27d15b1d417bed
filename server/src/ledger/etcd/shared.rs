//! What the driver shows to those who ask without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::committer::{Committer, Role};

/// The state as it was last shown.
#[derive(Debug, Default)]
pub(super) struct Shared {
    fault: Mutex<Option<String>>,
    role: Mutex<Role>,
    n_bytes: AtomicU64,
}

impl Shared {
    /// Shows the state of the machine; returns whether the role has changed.
    pub(super) fn show(&self, committer: &Committer) -> bool {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.as_deref() != committer.fault() {
            *fault = committer.fault().map(str::to_owned);
        }
        drop(fault);
        if let Some(n_bytes) = committer.n_bytes() {
            self.n_bytes.store(n_bytes, Ordering::Relaxed);
        }
        let now = committer.role();
        let mut role = self.role.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *role != now;
        *role = now;
        has_changed
    }

    /// Reason why nothing is committed, if that is a fault.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn role(&self) -> Role {
        self.role.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of bytes of the records when this replica committed last.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Ordering::Relaxed)
    }
}
