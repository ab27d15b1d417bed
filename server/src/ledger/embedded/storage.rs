//! Storage for redb that records whether a sync has ever failed.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

/// Whether any sync has failed, shared by clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Syncs(Arc<AtomicBool>);

impl Syncs {
    pub(super) fn have_failed(&self) -> bool {
        // Set before the failure is reported; no other data depends on its ordering.
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, outcome: io::Result<()>) -> io::Result<()> {
        outcome.inspect_err(|_| self.0.store(true, Ordering::Relaxed))
    }
}

/// Storage whose syncs are recorded.
#[derive(Debug)]
pub(super) struct Watched<Storage> {
    storage: Storage,
    syncs: Syncs,
}

impl<Storage> Watched<Storage> {
    pub(super) fn new(storage: Storage, syncs: Syncs) -> Watched<Storage> {
        Watched { storage, syncs }
    }
}

impl<Storage: StorageBackend> StorageBackend for Watched<Storage> {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.note(self.storage.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.storage.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_sync_is_remembered() {
        let syncs = Syncs::default();
        assert!(syncs.note(Ok(())).is_ok() && !syncs.have_failed());
        assert!(syncs.note(Err(io::Error::other("gone"))).is_err());
        assert!(syncs.note(Ok(())).is_ok() && syncs.have_failed());
    }
}
