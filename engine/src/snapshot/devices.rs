//! Devices: classes, slices and claims by name, and what is allocated. Rules: S-DRA-30, S-DRA-37, S-DRA-38, S-DRA-121.
//! Changes with deltas, never with a request.

mod allocated;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::indexed::Indexed;
use crate::model::device::claim::ResourceClaim;
use crate::model::device::class::DeviceClass;
use crate::model::device::id::{PoolKey, SliceKey};
use crate::model::device::slice::ResourceSlice;
use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
pub(crate) use allocated::Allocated;

/// Objects of dynamic resource allocation. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    /// Version that changes whenever one of the objects changes: equal versions mean equal content.
    pub(crate) version: u64,
    pub(crate) allocated: Allocated,
    classes: OrdMap<Arc<str>, Arc<DeviceClass>>,
    claims: OrdMap<ClaimKey, Arc<ResourceClaim>>,
    /// Claims that stand for extended resources, by the uid of the pod that owns them.
    extended_claims: OrdSet<(Arc<str>, ClaimKey)>,
    slices: OrdMap<SliceKey, Arc<ResourceSlice>>,
    /// Number of slices of each pool by generation.
    generations: OrdMap<(PoolKey, i64), usize>,
    /// Slices that name a node, by node.
    of_node: OrdMap<(Symbol, SliceKey), Arc<ResourceSlice>>,
    /// Slices that every node has to look at.
    of_every_node: OrdMap<SliceKey, Arc<ResourceSlice>>,
}

impl Devices {
    pub(crate) fn class(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.classes.get(name)
    }

    /// Every class, by name.
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
    /// generation and name (S-DRA-37, S-DRA-38).
    ///
    /// Cost: a step for each slice of the node, and for each that names no node.
    pub(crate) fn slices_seen_from(&self, node: Symbol) -> Vec<&Arc<ResourceSlice>> {
        let of_node = self
            .of_node
            .range((node, first_slice())..)
            .take_while(|((of, _), _)| *of == node)
            .map(|(_, slice)| slice)
            .filter(|slice| !slice.concerns_every_node());
        let mut slices: Vec<_> = of_node.chain(self.of_every_node.values()).collect();
        slices.sort_by(|a, b| a.key.cmp(&b.key));
        slices
    }

    /// Every slice, in the order of driver, pool, generation and name.
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

    fn insert_slice(&mut self, slice: &Arc<ResourceSlice>) {
        let key = &slice.key;
        self.slices.insert(key.clone(), slice.clone());
        *self.generations.entry((key.pool.clone(), key.generation)).or_insert(0) += 1;
        if let Some(node) = slice.nodes.node {
            self.of_node.insert((node, key.clone()), slice.clone());
        }
        if slice.concerns_every_node() {
            self.of_every_node.insert(key.clone(), slice.clone());
        }
    }

    fn remove_slice(&mut self, slice: &ResourceSlice) {
        let key = &slice.key;
        self.slices.remove(key);
        let generation = (key.pool.clone(), key.generation);
        if let Some(n_slices) = self.generations.get_mut(&generation) {
            *n_slices -= 1;
            if *n_slices == 0 {
                self.generations.remove(&generation);
            }
        }
        if let Some(node) = slice.nodes.node {
            self.of_node.remove(&(node, key.clone()));
        }
        self.of_every_node.remove(key);
    }

    /// Adds a claim, with what is allocated to it.
    fn insert_claim(&mut self, claim: &Arc<ResourceClaim>) {
        self.claims.insert(claim.key.clone(), claim.clone());
        self.extended_claims.extend(extended_key(claim));
        self.allocated.add(claim);
    }

    /// Removes a claim, with what is allocated to it.
    fn remove_claim(&mut self, claim: &ResourceClaim) {
        self.claims.remove(&claim.key);
        if let Some(key) = extended_key(claim) {
            self.extended_claims.remove(&key);
        }
        self.allocated.remove(claim);
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
        match (old, new) {
            (_, Some(new)) => drop(devices.classes.insert(new.name.clone(), new.clone())),
            (Some(old), None) => drop(devices.classes.remove(&old.name)),
            (None, None) => {}
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
        old.into_iter().for_each(|old| devices.remove_slice(old));
        new.into_iter().for_each(|new| devices.insert_slice(new));
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
        old.into_iter().for_each(|old| devices.remove_claim(old));
        new.into_iter().for_each(|new| devices.insert_claim(new));
    }
}

#[cfg(test)]
mod tests;
