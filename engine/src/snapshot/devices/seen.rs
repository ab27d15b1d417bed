//! Seen: the pools that a node sees, and which of them are complete and valid. Rules: S-DRA-32 to S-DRA-37.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Devices;
use super::pool::{BadSelector, Pool, PoolState, Viewer};
use crate::model::device::published::Device;
use crate::model::device::slice::ResourceSlice;
use crate::model::intern::Symbol;

impl Devices {
    /// The pools that a node sees, in the order of the search (S-DRA-37). Pools that are complete and have no devices
    /// for the node may be left out.
    ///
    /// Cost: a step for each slice of the node, for each that names no node, and for each device of these.
    pub(crate) fn pools_seen_from<'a>(
        &'a self,
        viewer: Viewer<'_>,
    ) -> Result<SmallVec<[Pool<'a>; 2]>, BadSelector> {
        let mut relevant: SmallVec<[&'a ResourceSlice; 4]> = SmallVec::new();
        for slice in self.slices_seen_from(viewer.node) {
            if viewer.concerns(slice)? {
                relevant.push(slice);
            }
        }
        let of_one_pool = relevant.chunk_by(|a, b| a.key.pool == b.key.pool);
        let mut pools: SmallVec<[Pool<'a>; 2]> =
            of_one_pool.filter_map(|slices| self.pool(slices)).collect();
        for (key, fault) in &self.faults {
            if fault.home != viewer.node {
                pools.push(Pool::faulty(key, fault.state));
            }
        }
        let order = |pool: &Pool<'a>| (pool.has_binding_conditions(), pool.key);
        if !pools.is_sorted_by_key(order) {
            pools.sort_by(|a, b| order(a).cmp(&order(b)));
        }
        Ok(pools)
    }

    /// The pool of these slices, which are one pool's and relevant for a node, by generation and name; `None` where
    /// the pool is ignored (S-DRA-32, S-DRA-33).
    pub(super) fn pool<'a>(&self, relevant: &[&'a ResourceSlice]) -> Option<Pool<'a>> {
        let newest = relevant.last()?;
        let (key, generation) = (&newest.key.pool, newest.key.generation);
        let old = relevant.partition_point(|slice| slice.key.generation < generation);
        let relevant = &relevant[old..];
        // Where slices disagree about their number, one with devices decides (S-DRA-33).
        let with_devices = relevant.iter().find(|slice| !slice.has_counters());
        let n_expected = with_devices.unwrap_or(&relevant[0]).slice_count;
        let is_count = |n: usize| i64::try_from(n) == Ok(n_expected);
        let mut pool = Pool {
            state: PoolState::Valid,
            slices: relevant.iter().copied().filter(|slice| !slice.has_counters()).collect(),
            counters: relevant.iter().copied().filter(|slice| slice.has_counters()).collect(),
            has_others: false,
            ..Pool::faulty(key, PoolState::Valid)
        };
        pool.generation = generation;
        if !is_count(relevant.len()) {
            if self.newest_generation(key).is_some_and(|newest| newest > generation) {
                return None;
            }
            if !is_count(self.n_slices_of(key, generation)) {
                return Some(Pool::faulty(key, PoolState::Incomplete));
            }
            pool.has_others = true;
        }
        if self.is_invalid(&pool) {
            return Some(Pool::faulty(key, PoolState::Invalid));
        }
        Some(pool)
    }

    /// Whether the pool contradicts itself (S-DRA-34).
    fn is_invalid(&self, pool: &Pool<'_>) -> bool {
        let sets = || pool.counters.iter().flat_map(|slice| &slice.shared_counters);
        let is_repeated_set = sets()
            .enumerate()
            .any(|(i, set)| sets().take(i).any(|earlier| earlier.name == set.name));
        if has_repeated_device(pool) || is_repeated_set {
            return true;
        }
        let lacks = |device: &Device| {
            device.consumes.iter().any(|drawn| {
                let Some(set) = sets().find(|set| set.name == drawn.name) else { return true };
                let has = |name: &Arc<str>| set.counters.iter().any(|(known, _)| known == name);
                !drawn.counters.iter().all(|(name, _)| has(name))
            })
        };
        let of_others = |slice: &&Arc<ResourceSlice>| {
            !slice.has_counters() && !pool.slices.iter().any(|own| own.key.name == slice.key.name)
        };
        pool.devices().any(&lacks)
            || pool.has_others
                && self
                    .slices_of(pool.key, pool.generation)
                    .filter(of_others)
                    .any(|slice| slice.devices.iter().any(&lacks))
    }
}

fn has_repeated_device(pool: &Pool<'_>) -> bool {
    if let [slice] = &*pool.slices {
        return slice.has_repeated_device;
    }
    let mut names: Vec<Symbol> = pool.devices().map(|device| device.id.device).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
