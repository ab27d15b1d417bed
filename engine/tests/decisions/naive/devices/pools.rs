//! The pools that a node sees. Rules: S-DRA-30 to S-DRA-38.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::core_v1::{Node, NodeSelector};
use berth_proto::resource_v1::{CounterSet, Device, ResourceSlice, ResourceSliceSpec};

use crate::naive::node_selector;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Valid,
    Incomplete,
    Invalid,
}

/// A pool as a node sees it.
pub(super) struct Pool<'a> {
    pub(super) driver: &'a str,
    pub(super) name: &'a str,
    pub(super) state: State,
    /// The relevant slices, by name.
    pub(super) slices: Vec<&'a ResourceSlice>,
    /// Slices of the generation that are not relevant, if they had to be counted (S-DRA-33).
    pub(super) others: Vec<&'a ResourceSlice>,
}

pub(super) fn spec(slice: &ResourceSlice) -> &ResourceSliceSpec {
    slice.spec.as_ref().expect("a slice has a spec")
}

fn key(slice: &ResourceSlice) -> (&str, &str, i64) {
    let pool = spec(slice).pool.as_ref().expect("a slice has a pool");
    (&spec(slice).driver, &pool.name, pool.generation)
}

/// Node name, all nodes, selector (S-DRA-31).
fn is_for(
    node: &Node,
    name: Option<&str>,
    all: Option<bool>,
    selector: Option<&NodeSelector>,
) -> bool {
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        return node.metadata.as_ref().is_some_and(|metadata| metadata.name == name);
    }
    all == Some(true) || selector.is_some_and(|selector| node_selector::selects(selector, node))
}

/// Whether a device of a slice that leaves it to its devices is for the node.
pub(super) fn is_device_for(node: &Node, device: &Device) -> bool {
    is_for(node, device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref())
}

/// S-DRA-30, S-DRA-31.
fn is_relevant(node: &Node, slice: &ResourceSlice) -> bool {
    let spec = spec(slice);
    if !spec.shared_counters.is_empty() {
        return true;
    }
    if spec.per_device_node_selection == Some(true) {
        return spec.devices.iter().any(|device| is_device_for(node, device));
    }
    is_for(node, spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref())
}

/// The pools in the order of the search (S-DRA-37, S-DRA-38).
pub(super) fn seen_from<'a>(node: &Node, all: &'a [ResourceSlice]) -> Vec<Pool<'a>> {
    let relevant: Vec<&ResourceSlice> =
        all.iter().filter(|slice| is_relevant(node, slice)).collect();
    let names: BTreeSet<(&str, &str)> =
        relevant.iter().map(|slice| (key(slice).0, key(slice).1)).collect();
    let mut pools: Vec<Pool<'a>> = names
        .into_iter()
        .filter_map(|(driver, name)| {
            let of_pool =
                |slice: &&&'a ResourceSlice| (key(slice).0, key(slice).1) == (driver, name);
            let newest = relevant.iter().filter(of_pool).map(|slice| key(slice).2).max()?;
            let is_newest = |slice: &&&'a ResourceSlice| key(slice) == (driver, name, newest);
            let mut slices: Vec<&ResourceSlice> =
                relevant.iter().filter(is_newest).copied().collect();
            slices.sort_by_key(|slice| slice.metadata.as_ref().map(|metadata| &metadata.name));
            assess(driver, name, newest, slices, all)
        })
        .collect();
    // A stable sort: within both kinds the pools stay by driver and name.
    pools.sort_by_key(|pool| pool.state == State::Valid && has_binding_conditions(pool));
    pools
}

fn has_binding_conditions(pool: &Pool<'_>) -> bool {
    let devices = pool.slices.iter().flat_map(|slice| &spec(slice).devices);
    devices.into_iter().any(|device| !device.binding_conditions.is_empty())
}

/// S-DRA-33, S-DRA-34.
fn assess<'a>(
    driver: &'a str,
    name: &'a str,
    generation: i64,
    slices: Vec<&'a ResourceSlice>,
    all: &'a [ResourceSlice],
) -> Option<Pool<'a>> {
    let count = spec(slices[0]).pool.as_ref().expect("a pool").resource_slice_count;
    let mut pool = Pool { driver, name, state: State::Valid, slices, others: Vec::new() };
    if pool.slices.len() as i64 != count {
        let of_pool: Vec<&ResourceSlice> =
            all.iter().filter(|slice| (key(slice).0, key(slice).1) == (driver, name)).collect();
        if of_pool.iter().any(|slice| key(slice).2 > generation) {
            return None;
        }
        let of_generation = of_pool.iter().filter(|slice| key(slice).2 == generation);
        if of_generation.clone().count() as i64 != count {
            pool.state = State::Incomplete;
            return Some(pool);
        }
        let is_other =
            |slice: &&&ResourceSlice| !pool.slices.iter().any(|own| std::ptr::eq(*own, **slice));
        pool.others = of_generation.filter(is_other).copied().collect();
    }
    if !is_valid(&pool) {
        pool.state = State::Invalid;
    }
    Some(pool)
}

fn is_valid(pool: &Pool<'_>) -> bool {
    let devices = || pool.slices.iter().flat_map(|slice| &spec(slice).devices);
    let names: BTreeSet<&str> = devices().map(|device| &*device.name).collect();
    let sets: Vec<&CounterSet> =
        pool.slices.iter().flat_map(|slice| &spec(slice).shared_counters).collect();
    let by_name: BTreeMap<&str, &CounterSet> = sets.iter().map(|set| (&*set.name, *set)).collect();
    let consumers = devices().chain(pool.others.iter().flat_map(|slice| &spec(slice).devices));
    let are_known = consumers.flat_map(|device| &device.consumes_counters).all(|consumed| {
        let set = by_name.get(&*consumed.counter_set);
        set.is_some_and(|set| consumed.counters.keys().all(|name| set.counters.contains_key(name)))
    });
    names.len() == devices().count() && by_name.len() == sets.len() && are_known
}
