//! Memo: evaluations of shapes seen before. A cache that cannot become stale: its content is keyed by shard version.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dashmap::DashMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Evaluation;
use crate::model::shape::ShapeId;
use crate::plan::Plan;
use crate::prepared::devices::ClaimsKey;

/// Remembered evaluations, by shape and policy.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    entries: DashMap<MemoKey, Arc<Entry>, FxBuildHasher>,
    /// Size of all entries.
    size: AtomicUsize,
    clock: AtomicU64,
}

/// Everything that an evaluation depends on besides the shards.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MemoKey {
    shape: ShapeId,
    policy: u64,
    /// Hash of the demand for counts of other pods; a collision costs a new count, but does not change a result.
    demand: u64,
    /// The pod's claims for devices, if it has any.
    claims: Option<Box<ClaimsKey>>,
}

impl MemoKey {
    /// The key of a plan; `None` where its request must not be remembered.
    pub(crate) fn of(plan: &Plan<'_>) -> Option<MemoKey> {
        let claims = match plan.devices().found() {
            None => None,
            Some(found) => Some(Box::new(found.key()?)),
        };
        plan.is_rememberable().then(|| MemoKey {
            claims,
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
    size: usize,
}

/// The largest size of all evaluations that are kept, in kibibytes.
const MAX_SIZE: usize = 48 << 10;

/// The least number of evaluations that are kept, however large they are.
const MIN_EVALUATIONS: usize = 8;

/// About as many kibibytes as the evaluation of a plan takes: for each shard one, and one more for each counted subject
/// and each of its sums.
fn size(plan: &Plan<'_>) -> usize {
    let demand = plan.demand();
    plan.snapshot().shards.len() * (1 + demand.subjects.len() + demand.sums.len())
}

/// Evaluations of one owner, with a bound on their size.
#[derive(Debug, Default)]
pub(crate) struct Evaluations {
    by_key: FxHashMap<MemoKey, Evaluation>,
    size: usize,
}

impl Evaluations {
    /// The evaluation of this key for a plan, made where there is none.
    pub(crate) fn get_or_make(
        &mut self,
        key: MemoKey,
        plan: &Plan<'_>,
        make: impl FnOnce() -> Evaluation,
    ) -> &mut Evaluation {
        if !self.by_key.contains_key(&key) {
            let size = size(plan);
            if self.size + size > MAX_SIZE && self.by_key.len() >= MIN_EVALUATIONS {
                self.by_key.clear();
                self.size = 0;
            }
            self.size += size;
        }
        self.by_key.entry(key).or_insert_with(make)
    }
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
            None => self.insert(key, size(plan)),
        };
        entry.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // Another thread may be using this shape: work without the memo instead of waiting for it.
        match entry.evaluation.try_lock() {
            Ok(mut evaluation) => decide(plan, &mut evaluation),
            Err(_) => decide(plan, &mut Evaluation::default()),
        }
    }

    fn insert(&self, key: MemoKey, size: usize) -> Arc<Entry> {
        if self.size.load(Ordering::Relaxed) + size > MAX_SIZE
            && self.entries.len() >= MIN_EVALUATIONS
        {
            self.evict();
        }
        let make = || {
            self.size.fetch_add(size, Ordering::Relaxed);
            Arc::new(Entry { size, ..Entry::default() })
        };
        self.entries.entry(key).or_insert_with(make).clone()
    }

    /// Removes the least recently used entries, so that the others take at most half of the largest size.
    fn evict(&self) {
        let of = |entry: &Entry| (entry.last_used.load(Ordering::Relaxed), entry.size);
        let mut used: Vec<(u64, usize)> = self.entries.iter().map(|entry| of(&entry)).collect();
        used.sort_unstable_by_key(|entry| Reverse(*entry));
        let mut size = 0;
        let mut oldest_kept = u64::MAX;
        for (last_used, entry_size) in used {
            size += entry_size;
            if size > MAX_SIZE / 2 {
                break;
            }
            oldest_kept = last_used;
        }
        self.entries.retain(|_, entry| {
            let is_kept = of(entry).0 >= oldest_kept;
            if !is_kept {
                self.size.fetch_sub(entry.size, Ordering::Relaxed);
            }
            is_kept
        });
    }
}
