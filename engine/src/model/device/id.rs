//! Identities: of a device, and of a slice.

use std::sync::Arc;

use crate::model::intern::{Interner, Symbol};

/// Identifies a device: its driver, its pool and its name. The order is arbitrary.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct DeviceId {
    pub(crate) driver: Symbol,
    pub(crate) pool: Symbol,
    pub(crate) device: Symbol,
}

impl DeviceId {
    pub(crate) fn new(driver: &str, pool: &str, device: &str, names: &Interner) -> DeviceId {
        let [driver, pool, device] = [driver, pool, device].map(|name| names.intern(name));
        DeviceId { driver, pool, device }
    }
}

/// Identifies a pool of a driver. Pools are in the order of the search: by driver, then by name, as bytes (S-DRA-37).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PoolKey {
    pub(crate) driver: Arc<str>,
    pub(crate) pool: Arc<str>,
}

/// Identifies a slice. Slices are in the order of their pools, then of their generations, then of the search: by name,
/// as bytes (S-DRA-38).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SliceKey {
    pub(crate) pool: PoolKey,
    pub(crate) generation: i64,
    pub(crate) name: Arc<str>,
}
