//! Counters that devices of a pool draw from, while devices are chosen one after another. Rules: S-DRA-60 to S-DRA-64.

use std::sync::Arc;

use berth_proto::Amount;

use super::sight::Sight;
use crate::model::device::published::{CounterSet, Device};
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::Pool;

/// The counters of a search, by pool: by the name of the pool alone (S-DRA-63).
#[derive(Debug, Default)]
pub(super) struct Counters<'a>(Vec<PoolCounters<'a>>);

#[derive(Debug)]
struct PoolCounters<'a> {
    pool: Arc<str>,
    counters: Vec<Counter<'a>>,
}

#[derive(Debug)]
struct Counter<'a> {
    set: &'a str,
    name: &'a str,
    /// What is left of it before the search.
    available: Amount,
    drawn: Amount,
}

impl<'a> Counters<'a> {
    /// Draws what a device consumes, unless a counter of its pool is drawn beyond what is available then (S-DRA-61).
    pub(super) fn draw(&mut self, device: &Device, sight: &Sight<'a>, devices: &Devices) -> bool {
        let pool = self.of_pool(device, sight, devices);
        pool.add(&device.consumes, false);
        if pool.counters.iter().any(|counter| counter.drawn > counter.available) {
            pool.add(&device.consumes, true);
            return false;
        }
        true
    }

    /// Gives back what a device has drawn.
    pub(super) fn give_back(&mut self, device: &Device) {
        if let Some(pool) = self.0.iter_mut().find(|pool| pool.pool == device.pool) {
            pool.add(&device.consumes, true);
        }
    }

    /// The counters of a device's pool: the first device that needs any settles which driver's they are.
    fn of_pool(
        &mut self,
        device: &Device,
        sight: &Sight<'a>,
        devices: &Devices,
    ) -> &mut PoolCounters<'a> {
        let Device { driver, pool: name, .. } = device;
        if let Some(at) = self.0.iter().position(|pool| pool.pool == *name) {
            return &mut self.0[at];
        }
        let is_it = |pool: &&Pool<'a>| pool.key.pool == *name && pool.key.driver == *driver;
        let found = sight.pools.iter().find(is_it);
        let counters = found.map_or_else(Vec::new, |pool| available(pool, devices));
        self.0.push(PoolCounters { pool: name.clone(), counters });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}

impl PoolCounters<'_> {
    fn add(&mut self, consumed: &[CounterSet], is_given_back: bool) {
        for_each_consumed(&mut self.counters, consumed, |counter, amount| {
            counter.drawn += if is_given_back { -amount } else { amount };
        });
    }
}

/// Calls `change` with each counter that is consumed and how much of it; counters that the pool has not are left out.
fn for_each_consumed<'a>(
    counters: &mut [Counter<'a>],
    consumed: &[CounterSet],
    mut change: impl FnMut(&mut Counter<'a>, Amount),
) {
    for set in consumed {
        for (name, amount) in &set.counters {
            let is_it =
                |counter: &&mut Counter<'_>| counter.set == &*set.name && counter.name == &**name;
            if let Some(counter) = counters.iter_mut().find(is_it) {
                change(counter, amount.value);
            }
        }
    }
}

/// The counters of a pool, each with the amount that allocated devices leave of it (S-DRA-60).
fn available<'a>(pool: &Pool<'a>, devices: &Devices) -> Vec<Counter<'a>> {
    let sets = pool.counters.iter().flat_map(|slice| &slice.shared_counters);
    let counters = sets.flat_map(|set| {
        set.counters.iter().map(|(name, amount)| Counter {
            set: &set.name,
            name,
            available: amount.value,
            drawn: Amount::ZERO,
        })
    });
    let mut counters: Vec<Counter<'a>> = counters.collect();
    let mut take = |device: &Device| {
        if !device.consumes.is_empty() && devices.allocated.of(device.id).is_some() {
            for_each_consumed(&mut counters, &device.consumes, |counter, amount| {
                counter.available += -amount;
            });
        }
    };
    if pool.has_others {
        let slices = devices.slices_of(pool.key, pool.generation);
        slices.flat_map(|slice| &slice.devices).for_each(&mut take);
    } else {
        pool.devices().for_each(&mut take);
    }
    counters
}
