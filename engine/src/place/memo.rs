//! Memo: evaluations of shapes seen before. A cache that cannot become stale: its content is keyed by shard version.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use super::Evaluation;
use crate::model::shape::ShapeId;
use crate::plan::Plan;

/// Remembered evaluations, by shape and policy.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    entries: DashMap<MemoKey, Arc<Entry>, FxBuildHasher>,
    clock: AtomicU64,
}

/// Everything that an evaluation depends on besides the shards.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MemoKey {
    shape: ShapeId,
    policy: u64,
    /// Hash of the demand for counts of other pods; a collision costs a new count, but does not change a result.
    demand: u64,
}

impl MemoKey {
    /// The key of a plan; `None` where its request must not be remembered.
    pub(crate) fn of(plan: &Plan<'_>) -> Option<MemoKey> {
        plan.is_rememberable().then(|| MemoKey {
            shape: plan.pod().shape().id,
            policy: plan.policy().fingerprint(),
            demand: plan.demand().fingerprint(),
        })
    }
}

#[derive(Debug, Default)]
struct Entry {
    evaluation: Mutex<Evaluation>,
    last_used: AtomicU64,
}

/// The largest number of shard evaluations kept: about 1.2 KiB each, and 1 KiB more for each counted subject and each
/// of its sums.
const MAX_SHARD_EVALUATIONS: usize = 20_000;

/// The largest number of evaluations kept for a cluster of this many shards.
pub(crate) fn capacity(n_shards: usize) -> usize {
    (MAX_SHARD_EVALUATIONS / n_shards.max(1)).max(8)
}

impl Memo {
    /// Runs `decide` on a plan with the remembered evaluation of its request, or with an empty one where it must not or
    /// cannot be remembered; the result is the same.
    pub(crate) fn with<'a, T>(
        &self,
        plan: &mut Plan<'a>,
        decide: impl FnOnce(&mut Plan<'a>, &mut Evaluation) -> T,
    ) -> T {
        let Some(key) = MemoKey::of(plan) else {
            return decide(plan, &mut Evaluation::default());
        };
        let entry = match self.entries.get(&key) {
            Some(entry) => entry.clone(),
            None => self.insert(key, plan.snapshot().shards.len()),
        };
        entry.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // Another thread may be using this shape: work without the memo instead of waiting for it.
        match entry.evaluation.try_lock() {
            Ok(mut evaluation) => decide(plan, &mut evaluation),
            Err(_) => decide(plan, &mut Evaluation::default()),
        }
    }

    fn insert(&self, key: MemoKey, n_shards: usize) -> Arc<Entry> {
        let capacity = capacity(n_shards);
        if self.entries.len() >= capacity {
            self.evict(capacity / 2);
        }
        self.entries.entry(key).or_default().clone()
    }

    /// Removes the least recently used entries.
    fn evict(&self, n_kept: usize) {
        let mut used: Vec<u64> =
            self.entries.iter().map(|entry| entry.last_used.load(Ordering::Relaxed)).collect();
        let n_dropped = used.len().saturating_sub(n_kept);
        if n_dropped == 0 {
            return;
        }
        let last = used.len() - 1;
        let oldest_kept = *used.select_nth_unstable(n_dropped.min(last)).1;
        self.entries.retain(|_, entry| entry.last_used.load(Ordering::Relaxed) >= oldest_kept);
    }
}
