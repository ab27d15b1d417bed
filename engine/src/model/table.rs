//! Table: interned facts that many objects share, each with an id.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

/// Interned `T`s by the facts that they are made of. Usable from any number of threads.
#[derive(Debug)]
pub(crate) struct Table<F: Eq + Hash, T> {
    entries: DashMap<F, Arc<T>, FxBuildHasher>,
    next_id: AtomicU32,
    /// Number of entries at which unused ones are removed.
    sweep_at: AtomicUsize,
}

/// Below this many entries, unused ones are not removed.
pub(crate) const SWEEP_MINIMUM: usize = 8192;

impl<F: Eq + Hash, T> Default for Table<F, T> {
    fn default() -> Table<F, T> {
        let sweep_at = AtomicUsize::new(SWEEP_MINIMUM);
        Table { entries: DashMap::default(), next_id: AtomicU32::new(0), sweep_at }
    }
}

impl<F: Eq + Hash + Clone, T> Table<F, T> {
    /// The entry of these facts, made with a new id if there is none. Ids are never reused.
    pub(crate) fn intern(&self, facts: F, make: impl FnOnce(u32, F) -> T) -> Arc<T> {
        if let Some(found) = self.entries.get(&facts) {
            return found.clone();
        }
        if self.entries.len() >= self.sweep_at.load(Ordering::Relaxed) {
            self.sweep();
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(make(id, facts.clone()));
        self.entries.entry(facts).or_insert(made).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes unused entries; the next sweep is at twice the number that is left.
    fn sweep(&self) {
        self.entries.retain(|_, entry| Arc::strong_count(entry) > 1);
        self.sweep_at.store((2 * self.entries.len()).max(SWEEP_MINIMUM), Ordering::Relaxed);
    }
}
