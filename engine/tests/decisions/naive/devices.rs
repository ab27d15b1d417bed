//! Devices: what one node gives to the claims of a pod, searched with nested loops over the wire's structs. Rules:
//! S-DRA-24, S-DRA-121, S-DRA-122.

mod allocated;
mod capacity;
mod constraint;
mod pools;
mod request;
mod search;
pub(crate) mod selector;

use std::collections::BTreeMap;

use berth_proto::core_v1::Node;
use berth_proto::resource_v1::{DeviceClass, ResourceClaim, ResourceSlice};

use super::quantity::Nanos;

/// A node, and everything else that decides which devices the node can give.
pub(crate) struct World<'a> {
    pub(crate) node: &'a Node,
    pub(crate) classes: &'a [DeviceClass],
    pub(crate) slices: &'a [ResourceSlice],
    /// Claims with an allocation, written or in flight.
    pub(crate) allocated: &'a [ResourceClaim],
}

/// A device given to a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    /// REQUEST, or REQUEST/SUB.
    pub(crate) request: String,
    /// Driver, pool and device.
    pub(crate) device: (String, String, String),
    pub(crate) is_admin: bool,
    /// Capacities taken, if the device is allocated in shares.
    pub(crate) consumed: Option<BTreeMap<String, Nanos>>,
}

/// The outcome for one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The devices of each claim.
    Gives(Vec<Vec<Given>>),
    /// The reason of the refusal.
    Lacks(&'static str),
    /// The beginning of the error's text.
    Fatal(String),
    /// The search takes too long to be compared.
    TooLong,
}

/// Searches devices for claims without an allocation, on one node.
pub(crate) fn allocate(world: &World<'_>, claims: &[&ResourceClaim]) -> Outcome {
    search::run(world, claims)
}
