//! Table: interned facts that many objects share, each with an id.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use super::intern::Lease;

/// Interned `T`s by the facts that they are made of. Usable from any number of threads.
#[derive(Debug)]
pub(crate) struct Table<F: Eq + Hash, T> {
    entries: DashMap<F, Entry<T>, FxBuildHasher>,
    next_id: AtomicU64,
    /// About as many bytes as the entries take.
    n_bytes: AtomicUsize,
    /// Number of entries, and of bytes, at which unused ones are removed.
    sweep_at: AtomicUsize,
    sweep_at_bytes: AtomicUsize,
}

#[derive(Debug)]
struct Entry<T> {
    value: Arc<T>,
    /// Holds the strings of the facts as long as the entry is there.
    _lease: Option<Arc<Lease>>,
    n_bytes: usize,
}

/// Below this many entries, and this many bytes, unused ones are not removed.
pub(crate) const SWEEP_MINIMUM: usize = 8192;
const SWEEP_MINIMUM_BYTES: usize = 4 << 20;

/// About as many bytes as an entry takes whose facts were compiled from a message of this encoded length: the smallest
/// parts of messages become several times as large.
pub(crate) fn table_bytes(encoded_len: usize) -> usize {
    512 + 8 * encoded_len
}

impl<F: Eq + Hash, T> Default for Table<F, T> {
    fn default() -> Table<F, T> {
        Table {
            entries: DashMap::default(),
            next_id: AtomicU64::new(0),
            n_bytes: AtomicUsize::new(0),
            sweep_at: AtomicUsize::new(SWEEP_MINIMUM),
            sweep_at_bytes: AtomicUsize::new(SWEEP_MINIMUM_BYTES),
        }
    }
}

impl<F: Eq + Hash + Clone, T> Table<F, T> {
    /// The entry of these facts. If there is none, `make` makes it with a new id, and says about how many bytes it
    /// takes; the entry holds `lease`, the one of the facts' strings. Ids are never reused.
    pub(crate) fn intern(
        &self,
        facts: F,
        lease: Option<Arc<Lease>>,
        make: impl FnOnce(u64, F) -> (T, usize),
    ) -> Arc<T> {
        if let Some(found) = self.entries.get(&facts) {
            return found.value.clone();
        }
        if self.entries.len() >= self.sweep_at.load(Ordering::Relaxed)
            || self.n_bytes.load(Ordering::Relaxed) >= self.sweep_at_bytes.load(Ordering::Relaxed)
        {
            self.sweep();
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (value, n_bytes) = make(id, facts.clone());
        let value = Arc::new(value);
        let n_bytes = n_bytes + lease.as_ref().map_or(0, |lease| lease.n_bytes());
        let entry = Entry { value, _lease: lease, n_bytes };
        let mut is_new = false;
        let found = self.entries.entry(facts).or_insert_with(|| {
            is_new = true;
            entry
        });
        if is_new {
            self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        }
        found.value.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes unused entries; the next sweep is at twice what is left.
    fn sweep(&self) {
        self.entries.retain(|_, entry| {
            let is_used = Arc::strong_count(&entry.value) > 1;
            if !is_used {
                self.n_bytes.fetch_sub(entry.n_bytes, Ordering::Relaxed);
            }
            is_used
        });
        let (n, n_bytes) = (self.entries.len(), self.n_bytes.load(Ordering::Relaxed));
        self.sweep_at.store((2 * n).max(SWEEP_MINIMUM), Ordering::Relaxed);
        self.sweep_at_bytes.store((2 * n_bytes).max(SWEEP_MINIMUM_BYTES), Ordering::Relaxed);
    }
}
