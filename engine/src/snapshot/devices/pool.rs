//! Pools as one node sees them: the slices that are relevant for the node, and the state that they are in.
//! Rules: S-DRA-31, S-DRA-38.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::device::id::PoolKey;
use crate::model::device::node_selection::NodeSelection;
use crate::model::device::published::Device;
use crate::model::device::slice::ResourceSlice;
use crate::model::intern::{Interner, Symbol};
use crate::rows::RowSet;
use crate::snapshot::matching::matching;
use crate::snapshot::shard::Shard;

/// A pool as a node sees it.
#[derive(Clone, Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) key: &'a PoolKey,
    pub(crate) state: PoolState,
    /// Relevant slices with devices, in the order of the search.
    pub(crate) slices: SmallVec<[&'a ResourceSlice; 1]>,
    /// Relevant slices with counters.
    pub(crate) counters: SmallVec<[&'a ResourceSlice; 1]>,
    /// Generation of the slices.
    pub(crate) generation: i64,
    /// Whether the pool has slices of this generation that are not relevant for the node.
    pub(crate) has_others: bool,
}

/// Whether devices of a pool may be allocated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum PoolState {
    Valid,
    /// Slices are missing.
    Incomplete,
    /// Names repeat, or a device draws from counters that the pool does not have.
    Invalid,
}

/// A node selector of a slice or a device that does not parse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadSelector {
    pub(crate) slice: Arc<str>,
    pub(crate) why: String,
}

/// A node, for node selections.
#[derive(Copy, Clone)]
pub(crate) struct Viewer<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) row: usize,
    pub(crate) node: Symbol,
    pub(crate) names: &'a Interner,
}

impl Viewer<'_> {
    /// Whether a node selection has this node; `Err` with the reason for a selector that does not parse (S-DRA-31).
    pub(crate) fn is_in(&self, selection: &NodeSelection) -> Result<bool, String> {
        if let Some(node) = selection.node {
            return Ok(node == self.node);
        }
        if selection.all_nodes {
            return Ok(true);
        }
        match &selection.selector {
            None => Ok(false),
            Some(selector) => match &selector.invalid {
                Some(why) => Err(why.clone()),
                None => {
                    let here: RowSet = [self.row].into_iter().collect();
                    let matched = matching(&selector.compiled, &self.shard.nodes, here, self.names);
                    Ok(!matched.is_empty())
                }
            },
        }
    }

    /// Whether a slice is relevant for this node (S-DRA-31).
    pub(super) fn concerns(&self, slice: &ResourceSlice) -> Result<bool, BadSelector> {
        if slice.has_counters() {
            return Ok(true);
        }
        let bad = |why| BadSelector { slice: slice.key.name.clone(), why };
        if slice.nodes.is_set() {
            return self.is_in(&slice.nodes).map_err(bad);
        }
        if slice.is_per_device {
            for device in &slice.devices {
                if self.is_in(&device.nodes).map_err(bad)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl<'a> Pool<'a> {
    /// A pool from which nothing is allocated.
    pub(super) fn faulty(key: &'a PoolKey, state: PoolState) -> Pool<'a> {
        let (slices, counters) = (SmallVec::new(), SmallVec::new());
        Pool { key, state, slices, counters, generation: 0, has_others: false }
    }

    /// Devices of the pool in the order of the search (S-DRA-38).
    pub(crate) fn devices(&self) -> impl Iterator<Item = &'a Device> + '_ {
        self.slices.iter().flat_map(|slice| &slice.devices)
    }

    pub(super) fn has_binding_conditions(&self) -> bool {
        self.devices().any(|device| !device.binding_conditions.is_empty())
    }
}
