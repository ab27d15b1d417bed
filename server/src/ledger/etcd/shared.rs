//! What the driver shows to those who ask without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::committer::{Committer, Role};
use crate::ledger::Revision;

/// The state as it was last shown.
#[derive(Debug, Default)]
pub(super) struct Shared {
    fault: Mutex<Option<String>>,
    role: watch::Sender<Role>,
    n_bytes: AtomicU64,
    committed: AtomicU64,
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
        if let Some(Revision(committed)) = committer.last() {
            // Released before the answers to those who wait for the commit.
            self.committed.store(committed, Ordering::Release);
        }
        let now = committer.role();
        self.role.send_if_modified(|role| {
            let has_changed = *role != now;
            *role = now;
            has_changed
        })
    }

    /// Reason why nothing is committed, if that is a fault.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who commits, as far as this replica knows.
    pub(super) fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// The last commit of this replica's present or last term.
    pub(super) fn committed(&self) -> Revision {
        Revision(self.committed.load(Ordering::Acquire))
    }

    /// Number of bytes of the records when this replica committed last.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Ordering::Relaxed)
    }
}
