//! Memo: what was found for shapes seen before, their evaluations above all. A cache that cannot become stale: its
//! content is keyed by shard version.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Evaluation;
use crate::model::shape::ShapeId;
use crate::plan::Plan;
use crate::prepared::devices::ClaimsKey;

/// A type of which [`Memo`] keeps a value for each shape and policy.
pub(crate) trait Remembered: Default {
    /// Nothing, like the default, in the memory of this.
    fn emptied(self) -> Self;

    /// About as many kibibytes as it takes for a plan.
    fn size(plan: &Plan<'_>) -> usize;
}

/// Values such as evaluations, kept between requests by shape and policy.
#[derive(Debug)]
pub(crate) struct Memo<V = Evaluation> {
    entries: DashMap<MemoKey, Arc<Entry<V>>, FxBuildHasher>,
    /// Size of all entries.
    size: AtomicUsize,
    clock: AtomicU64,
    /// Emptied values of entries that were removed: to get memory of this size from the system takes as long as to
    /// evaluate every node.
    spares: Mutex<Vec<V>>,
}

impl<V> Default for Memo<V> {
    fn default() -> Memo<V> {
        Memo {
            entries: DashMap::default(),
            size: AtomicUsize::default(),
            clock: AtomicU64::default(),
            spares: Mutex::default(),
        }
    }
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
struct Entry<V> {
    /// One for each thread that decides for the shape at the same time; an empty one takes nearly no memory.
    slots: [Mutex<Slot<V>>; N_SLOTS],
    last_used: AtomicU64,
    /// Size of the slots that are in use.
    size: AtomicUsize,
}

#[derive(Debug, Default)]
struct Slot<V> {
    value: V,
    is_used: bool,
}

/// Number of threads that find something remembered of one shape; further ones look at every node.
const N_SLOTS: usize = 4;

/// The largest size of all that is kept, in kibibytes.
const MAX_SIZE: usize = 48 << 10;

/// The least number of entries that are kept, however large they are.
const MIN_ENTRIES: usize = 8;

impl Remembered for Evaluation {
    fn emptied(self) -> Evaluation {
        Evaluation::emptied(self)
    }

    /// For each shard one, one more for its classes, and one for each counted subject and each of its sums.
    fn size(plan: &Plan<'_>) -> usize {
        let (demand, has_classes) = (plan.demand(), plan.is_by_class() && !plan.is_by_row());
        let n_counted = demand.subjects.len() + demand.sums.len();
        plan.snapshot().shards.len() * (1 + usize::from(has_classes) + n_counted)
    }
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
            let size = Evaluation::size(plan);
            if self.size + size > MAX_SIZE && self.by_key.len() >= MIN_ENTRIES {
                self.by_key.clear();
                self.size = 0;
            }
            self.size += size;
        }
        self.by_key.entry(key).or_insert_with(make)
    }
}

impl<V: Remembered> Memo<V> {
    /// Runs `decide` on a plan with what is remembered of its request, or with nothing where it must not or cannot be
    /// remembered; the result is the same.
    pub(crate) fn with<'a, T>(
        &self,
        plan: &mut Plan<'a>,
        decide: impl FnOnce(&mut Plan<'a>, &mut V) -> T,
    ) -> T {
        let Some(key) = MemoKey::of(plan) else {
            return decide(plan, &mut V::default());
        };
        let known = self.entries.get(&key).map(|entry| entry.clone());
        let entry = known.unwrap_or_else(|| self.entries.entry(key).or_default().clone());
        entry.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // Other threads may be using this shape: work without the memo instead of waiting for them.
        let Some(mut slot) = entry.slots.iter().find_map(|slot| slot.try_lock().ok()) else {
            return decide(plan, &mut V::default());
        };
        if !std::mem::replace(&mut slot.is_used, true) {
            self.make_room(&entry, V::size(plan));
            slot.value = self.spares().pop().unwrap_or_default();
        }
        decide(plan, &mut slot.value)
    }

    /// Counts one more slot of an entry; removes others if they become too large.
    fn make_room(&self, entry: &Entry<V>, size: usize) {
        let n_entries = self.entries.len();
        if self.size.load(Ordering::Relaxed) + size > MAX_SIZE && n_entries >= MIN_ENTRIES {
            self.evict();
        }
        entry.size.fetch_add(size, Ordering::Relaxed);
        self.size.fetch_add(size, Ordering::Relaxed);
    }

    fn spares(&self) -> MutexGuard<'_, Vec<V>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the least recently used entries, so that the others take at most half of the largest size. What
    /// they held becomes the spares, in place of those that are left.
    fn evict(&self) {
        let of = |entry: &Entry<V>| {
            let Entry { last_used, size, .. } = entry;
            (last_used.load(Ordering::Relaxed), size.load(Ordering::Relaxed))
        };
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
        // Counted anew, as a thread may have added to an entry that was removed meanwhile.
        let (mut size, mut removed) = (0, Vec::new());
        self.entries.retain(|_, entry| {
            let (last_used, entry_size) = of(entry);
            let is_kept = last_used >= oldest_kept;
            match is_kept {
                true => size += entry_size,
                false => removed.push(entry.clone()),
            }
            is_kept
        });
        self.size.store(size, Ordering::Relaxed);
        let unused = removed.into_iter().filter_map(|entry| Arc::try_unwrap(entry).ok());
        let slots = unused.flat_map(|entry| entry.slots);
        let slots = slots.filter_map(|slot| slot.into_inner().ok()).filter(|slot| slot.is_used);
        *self.spares() = slots.map(|slot| slot.value.emptied()).collect();
    }
}

#[cfg(test)]
mod tests {
    use berth_testing::object;

    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::kernel::Kernels;
    use crate::plan::request::{PlaceRequest, TieBreak};
    use crate::policy::Policy;
    use crate::snapshot::Snapshot;

    fn snapshot(cluster: &Cluster) -> Arc<Snapshot> {
        let node = cluster.compile_node(&object::node("n cpu=4 pods=10")).unwrap();
        cluster.apply(vec![Delta::UpsertNode(node)]);
        cluster.snapshot()
    }

    /// Asks the memo about a pod; within the answer `nested` asks again.
    fn ask(
        memo: &Memo<Evaluation>,
        cluster: &Cluster,
        cpu: usize,
        nested: &mut dyn FnMut(),
    ) -> u32 {
        let pod = cluster.compile_pod(&object::pod(&format!("p cpu={cpu}m"))).unwrap();
        let (policy, snapshot) = (Policy::default(), cluster.snapshot());
        let request = PlaceRequest {
            pod: &pod,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        let mut plan = Plan::new(&snapshot, &request, Kernels::detect());
        memo.with(&mut plan, |plan, evaluation| {
            nested();
            evaluation.filter(plan);
            evaluation.n_feasible()
        })
    }

    #[test]
    fn callers_at_the_same_time_have_an_evaluation_each() {
        let (memo, cluster) = (Memo::<Evaluation>::default(), Cluster::new());
        let n_shards = snapshot(&cluster).shards.len();
        let ask = |nested: &mut dyn FnMut()| assert_eq!(ask(&memo, &cluster, 100, nested), 1);
        ask(&mut || ());
        assert_eq!(memo.size.load(Ordering::Relaxed), n_shards);
        // Five at once: the last one finds no evaluation, and is answered all the same.
        ask(&mut || ask(&mut || ask(&mut || ask(&mut || ask(&mut || ())))));
        assert_eq!(memo.size.load(Ordering::Relaxed), N_SLOTS * n_shards);
        ask(&mut || ask(&mut || ()));
        assert_eq!(memo.size.load(Ordering::Relaxed), N_SLOTS * n_shards);
    }

    #[test]
    fn removed_evaluations_are_used_again_and_empty() {
        let (memo, cluster) = (Memo::<Evaluation>::default(), Cluster::new());
        drop(snapshot(&cluster));
        // The node has room for 4,000 milli-CPUs: an evaluation that was not emptied would say 1.
        for cpu in 1..20 {
            assert_eq!(ask(&memo, &cluster, cpu, &mut || ()), 1);
        }
        memo.size.fetch_add(MAX_SIZE, Ordering::Relaxed);
        memo.entries.iter().for_each(|entry| {
            entry.size.fetch_add(MAX_SIZE, Ordering::Relaxed);
        });
        assert_eq!(ask(&memo, &cluster, 5_000, &mut || ()), 0);
        assert_eq!((memo.entries.len(), memo.spares().len()), (1, 18));
        assert_eq!(ask(&memo, &cluster, 6_000, &mut || ()), 0);
        assert_eq!((memo.entries.len(), memo.spares().len()), (2, 17));
        assert_eq!(ask(&memo, &cluster, 7, &mut || ()), 1);
    }
}
