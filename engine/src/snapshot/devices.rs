//! Devices: classes, slices and claims by name, and what is allocated. Rules: S-DRA-30, S-DRA-37, S-DRA-38, S-DRA-121.
//! Changes with deltas, never with a request.

mod allocated;
mod assuming;
mod in_flight;
mod local;
pub(crate) mod pool;
mod seen;

use std::cmp::Reverse;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use smallvec::SmallVec;

use super::indexed::Indexed;
use crate::model::device::allocation::Allocation;
use crate::model::device::claim::ResourceClaim;
use crate::model::device::class::DeviceClass;
use crate::model::device::id::{PoolKey, SliceKey};
use crate::model::device::slice::ResourceSlice;
use crate::model::extended::CLASS_PREFIX;
use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
pub(crate) use allocated::{Allocated, DeviceUse};
use in_flight::InFlight;
pub(crate) use in_flight::{AssumedClaims, extended_key as in_flight_key};
use pool::PoolState;

/// Objects of dynamic resource allocation. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    /// Version that changes whenever one of the objects changes: equal versions mean equal content.
    pub(crate) version: u64,
    pub(crate) allocated: Allocated,
    classes: OrdMap<Arc<str>, Arc<DeviceClass>>,
    /// The class that provides each extended resource (S-DRA-102).
    providers: OrdMap<Arc<str>, Arc<DeviceClass>>,
    claims: OrdMap<ClaimKey, Arc<ResourceClaim>>,
    /// Claims that stand for extended resources, by the uid of the pod that owns them.
    extended_claims: OrdSet<(Arc<str>, ClaimKey)>,
    slices: OrdMap<SliceKey, Arc<ResourceSlice>>,
    /// Number of slices of each pool by generation.
    generations: OrdMap<(PoolKey, i64), usize>,
    /// Number of slices of each pool by the node that they name, if they name one.
    nodes: OrdMap<(PoolKey, Option<Symbol>), usize>,
    /// Slices that name a node, by node.
    of_node: OrdMap<(Symbol, SliceKey), Arc<ResourceSlice>>,
    /// Slices that every node has to look at: those that name no node, and those with counters of pools that are not
    /// on one node alone.
    of_every_node: OrdMap<SliceKey, Arc<ResourceSlice>>,
    /// Slices with counters.
    with_counters: OrdMap<SliceKey, Arc<ResourceSlice>>,
    /// Pools on one node whose faults all other nodes see, because their counters are seen everywhere (S-DRA-36).
    faults: OrdMap<PoolKey, Fault>,
    /// What is allocated in memory only.
    in_flight: InFlight,
    /// Version that changes with whatever matters to more than one node.
    shared_version: u64,
    /// Nodes for which something changed since [`Devices::take_touched`].
    touched: Vec<Symbol>,
}

/// How the other nodes see a pool on one node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Fault {
    home: Symbol,
    state: PoolState,
}

impl Devices {
    pub(crate) fn class(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.classes.get(name)
    }

    /// The class that provides an extended resource of this name, if one does.
    pub(crate) fn provider_of(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.providers.get(resource)
    }

    /// Enters the resources that a class provides, unless it loses the one that it names to another class: then it
    /// provides none at all, not even the one of its own name (S-DRA-102).
    fn enter_provider(&mut self, class: &Arc<DeviceClass>) {
        if let Some(resource) = &class.extended_resource {
            let other = self.providers.get(resource).filter(|other| other.name != class.name);
            let loses = |other: &Arc<DeviceClass>| {
                (Reverse(class.created), &class.name) > (Reverse(other.created), &other.name)
            };
            if other.is_some_and(loses) {
                return;
            }
            self.providers.insert(resource.clone(), class.clone());
        }
        self.providers.insert(format!("{CLASS_PREFIX}{}", class.name).into(), class.clone());
    }

    fn remove_provider(&mut self, class: &DeviceClass) {
        let own: Arc<str> = format!("{CLASS_PREFIX}{}", class.name).into();
        for resource in class.extended_resource.iter().chain([&own]) {
            if self.providers.get(resource).is_some_and(|found| found.name == class.name) {
                self.providers.remove(resource);
            }
        }
    }

    /// Every class, by name.
    #[cfg(test)]
    pub(crate) fn classes(&self) -> impl Iterator<Item = &Arc<DeviceClass>> {
        self.classes.values()
    }

    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(key)
    }

    /// Every claim, by namespace and name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.values()
    }

    /// The claims that stand for the extended resources of the pod of this uid, by namespace and name.
    pub(crate) fn extended_claims_of<'a>(
        &'a self,
        pod_uid: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ResourceClaim>> {
        let first = ClaimKey { namespace: Arc::default(), name: Arc::default() };
        let claims = self.extended_claims.range((Arc::from(pod_uid), first)..);
        claims
            .take_while(move |(uid, _)| **uid == *pod_uid)
            .filter_map(|(_, key)| self.claims.get(key))
    }

    /// The slices that a node has to look at, whether or not they are for it (S-DRA-30), in the order of driver, pool,
    /// generation and name (S-DRA-37, S-DRA-38); without those that only say how the counters of another node's pool
    /// are, see [`Devices::pools_seen_from`].
    ///
    /// Cost: a step for each slice of the node, and for each that names no node.
    pub(crate) fn slices_seen_from(&self, node: Symbol) -> SmallVec<[&Arc<ResourceSlice>; 4]> {
        let of_node = self.slices_that_name(node);
        if self.of_every_node.is_empty() {
            return of_node.collect();
        }
        let is_listed = |slice: &&Arc<ResourceSlice>| {
            slice.has_counters() && self.of_every_node.contains_key(&slice.key)
        };
        let of_node = of_node.filter(|slice| !is_listed(slice));
        let mut slices: SmallVec<[&Arc<ResourceSlice>; 4]> =
            of_node.chain(self.of_every_node.values()).collect();
        slices.sort_by(|a, b| a.key.cmp(&b.key));
        slices
    }

    /// The slices that name a node, in the order of driver, pool, generation and name.
    fn slices_that_name(&self, node: Symbol) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let slices = self.of_node.range((node, first_slice())..);
        slices.take_while(move |((of, _), _)| *of == node).map(|(_, slice)| slice)
    }

    /// Every slice, in the order of driver, pool, generation and name.
    #[cfg(test)]
    pub(crate) fn slices(&self) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        self.slices.values()
    }

    /// The slices of one generation of a pool, by name, whatever node they are for.
    pub(crate) fn slices_of<'a>(
        &'a self,
        pool: &'a PoolKey,
        generation: i64,
    ) -> impl Iterator<Item = &'a Arc<ResourceSlice>> {
        let from = SliceKey { pool: pool.clone(), generation, name: Arc::default() };
        self.slices
            .range(from..)
            .take_while(move |(key, _)| key.pool == *pool && key.generation == generation)
            .map(|(_, slice)| slice)
    }

    /// Number of slices of one generation of a pool.
    pub(crate) fn n_slices_of(&self, pool: &PoolKey, generation: i64) -> usize {
        self.generations.get(&(pool.clone(), generation)).copied().unwrap_or(0)
    }

    /// The highest generation of a pool; `None` for a pool without slices.
    pub(crate) fn newest_generation(&self, pool: &PoolKey) -> Option<i64> {
        let generations =
            self.generations.range((pool.clone(), i64::MIN)..=(pool.clone(), i64::MAX));
        generations.map(|((_, generation), _)| *generation).next_back()
    }

    /// The node that all slices of a pool name; `None` where they name none or several.
    fn home(&self, pool: &PoolKey) -> Option<Symbol> {
        let last = (pool.clone(), Some(Symbol::MAX));
        let mut nodes = self.nodes.range((pool.clone(), None)..=last).map(|((_, node), _)| *node);
        let first = nodes.next()??;
        nodes.next().is_none().then_some(first)
    }

    /// Version of whatever matters to more than one node: classes, and pools that several nodes see.
    pub(crate) fn shared_version(&self) -> u64 {
        self.shared_version
    }

    /// The nodes for which pools or allocations changed since the last call.
    pub(super) fn take_touched(&mut self) -> Vec<Symbol> {
        std::mem::take(&mut self.touched)
    }

    /// Notes that a pool changed, or what is allocated of it.
    fn touch(&mut self, pool: &PoolKey, version: u64) {
        match self.home(pool) {
            Some(node) => self.touched.push(node),
            None if self.has_slices(pool) => self.shared_version = version,
            // Devices that no slice has do nothing (S-DRA-122).
            None => {}
        }
    }

    fn has_slices(&self, pool: &PoolKey) -> bool {
        self.newest_generation(pool).is_some()
    }

    fn insert_slice(&mut self, slice: &Arc<ResourceSlice>, version: u64) {
        let key = &slice.key;
        // The node that had the pool alone until now may have company.
        self.touched.extend(self.home(&key.pool));
        self.slices.insert(key.clone(), slice.clone());
        *self.generations.entry((key.pool.clone(), key.generation)).or_insert(0) += 1;
        *self.nodes.entry((key.pool.clone(), slice.nodes.node)).or_insert(0) += 1;
        match slice.nodes.node {
            Some(node) => drop(self.of_node.insert((node, key.clone()), slice.clone())),
            None => drop(self.of_every_node.insert(key.clone(), slice.clone())),
        }
        if slice.has_counters() {
            self.with_counters.insert(key.clone(), slice.clone());
        }
        self.touched.extend(slice.nodes.node);
        self.renew_pool(&key.pool, version);
    }

    fn remove_slice(&mut self, slice: &ResourceSlice, version: u64) {
        let key = &slice.key;
        // Whoever saw the pool before may see another one now.
        self.touch(&key.pool, version);
        self.slices.remove(key);
        take_one(&mut self.generations, &(key.pool.clone(), key.generation));
        take_one(&mut self.nodes, &(key.pool.clone(), slice.nodes.node));
        if let Some(node) = slice.nodes.node {
            self.of_node.remove(&(node, key.clone()));
        }
        self.of_every_node.remove(key);
        self.with_counters.remove(key);
        self.touched.extend(slice.nodes.node);
        self.renew_pool(&key.pool, version);
    }

    /// Updates how nodes see a pool some slice of which changed.
    fn renew_pool(&mut self, pool: &PoolKey, version: u64) {
        self.touch(pool, version);
        let home = self.home(pool);
        let from = SliceKey { pool: pool.clone(), generation: i64::MIN, name: Arc::default() };
        let counters = self.with_counters.range(from..).take_while(|(key, _)| key.pool == *pool);
        let counters: Vec<Arc<ResourceSlice>> = counters.map(|(_, slice)| slice.clone()).collect();
        let fault = home.and_then(|home| {
            let relevant: Vec<&ResourceSlice> = counters.iter().map(|slice| &**slice).collect();
            let state = self.pool(&relevant).map_or(PoolState::Valid, |pool| pool.state);
            (state != PoolState::Valid).then_some(Fault { home, state })
        });
        for slice in counters.iter().filter(|slice| slice.nodes.node.is_some()) {
            match home {
                Some(_) => drop(self.of_every_node.remove(&slice.key)),
                None => drop(self.of_every_node.insert(slice.key.clone(), slice.clone())),
            }
        }
        if self.faults.get(pool) != fault.as_ref() {
            self.shared_version = version;
            match fault {
                Some(fault) => drop(self.faults.insert(pool.clone(), fault)),
                None => drop(self.faults.remove(pool)),
            }
        }
    }

    /// Adds a claim, with what is allocated to it. What is in flight of an allocated claim has arrived.
    fn insert_claim(&mut self, claim: &Arc<ResourceClaim>, version: u64) {
        self.claims.insert(claim.key.clone(), claim.clone());
        self.extended_claims.extend(extended_key(claim));
        if let Some(allocation) = &claim.allocation {
            self.land(claim, version);
            self.allocated.add(&claim.key, allocation);
            self.touch_devices(allocation, version);
        }
    }

    /// Frees what is allocated to a claim.
    pub(super) fn free(&mut self, claim: &Arc<ResourceClaim>, version: u64) {
        self.version = version;
        let freed = ResourceClaim {
            allocation: None,
            reserved_for: Box::default(),
            devices: Box::default(),
            ..(**claim).clone()
        };
        self.remove_claim(claim, version);
        self.insert_claim(&Arc::new(freed), version);
    }

    /// Removes a claim, with what is allocated to it.
    fn remove_claim(&mut self, claim: &ResourceClaim, version: u64) {
        self.claims.remove(&claim.key);
        if let Some(key) = extended_key(claim) {
            self.extended_claims.remove(&key);
        }
        if let Some(allocation) = &claim.allocation {
            self.allocated.remove(&claim.key, allocation);
            self.touch_devices(allocation, version);
        }
    }

    /// Notes that what is allocated of some devices changed.
    fn touch_devices(&mut self, allocation: &Allocation, version: u64) {
        let mut last = None;
        for result in &allocation.results {
            let pool = &result.pool;
            if last.replace(pool) != Some(pool) {
                self.touch(pool, version);
            }
        }
    }
}

/// Takes one from a count, and the count away at zero.
fn take_one<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: &K) {
    if let Some(n) = counts.get_mut(key) {
        *n -= 1;
        if *n == 0 {
            counts.remove(key);
        }
    }
}

/// The key before every slice.
fn first_slice() -> SliceKey {
    let pool = PoolKey { driver: Arc::default(), pool: Arc::default() };
    SliceKey { pool, generation: i64::MIN, name: Arc::default() }
}

/// The index key of a claim that stands for a pod's extended resources.
fn extended_key(claim: &ResourceClaim) -> Option<(Arc<str>, ClaimKey)> {
    let owner = claim.controller.as_ref().filter(|_| claim.is_extended)?;
    Some((owner.uid.clone(), claim.key.clone()))
}

impl Indexed for DeviceClass {
    type Index = Devices;

    fn replace(
        devices: &mut Devices,
        old: Option<&Arc<DeviceClass>>,
        new: Option<&Arc<DeviceClass>>,
        version: u64,
    ) {
        devices.version = version;
        devices.shared_version = version;
        if let Some(old) = old {
            devices.classes.remove(&old.name);
            devices.remove_provider(old);
        }
        if let Some(new) = new {
            devices.classes.insert(new.name.clone(), new.clone());
            devices.enter_provider(new);
        }
    }
}

impl Indexed for ResourceSlice {
    type Index = Devices;

    fn replace(
        devices: &mut Devices,
        old: Option<&Arc<ResourceSlice>>,
        new: Option<&Arc<ResourceSlice>>,
        version: u64,
    ) {
        devices.version = version;
        // A slice may move to another pool or generation.
        old.into_iter().for_each(|old| devices.remove_slice(old, version));
        new.into_iter().for_each(|new| devices.insert_slice(new, version));
    }
}

impl Indexed for ResourceClaim {
    type Index = Devices;

    fn replace(
        devices: &mut Devices,
        old: Option<&Arc<ResourceClaim>>,
        new: Option<&Arc<ResourceClaim>>,
        version: u64,
    ) {
        devices.version = version;
        old.into_iter().for_each(|old| devices.remove_claim(old, version));
        new.into_iter().for_each(|new| devices.insert_claim(new, version));
    }
}

#[cfg(test)]
mod tests;
