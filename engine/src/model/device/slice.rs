//! ResourceSlice: a part of a driver's pool of devices.

use std::sync::Arc;

use berth_proto::{meta_v1, resource_v1};

use super::id::{PoolKey, SliceKey};
use super::layout::Layout;
use super::node_selection::NodeSelection;
use super::published::{CounterSet, Device};
use super::remembered::Remembered;
use super::selector::Selector;
use super::text::shared;
use super::verdicts::{Marks, Verdict};
use crate::model::intern::Interner;
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// Facts of a slice.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ResourceSlice {
    pub(crate) key: SliceKey,
    /// Number of slices that the pool has in this generation.
    pub(crate) slice_count: i64,
    /// The nodes that can use the slice's devices.
    pub(crate) nodes: NodeSelection,
    /// Whether each device has a node selection of its own.
    pub(crate) is_per_device: bool,
    /// Devices in the order of the search (S-DRA-38).
    pub(crate) devices: Box<[Device]>,
    /// Counters that devices of the whole pool draw from.
    pub(crate) shared_counters: Box<[CounterSet]>,
    /// Whether two of the devices have one name.
    pub(crate) has_repeated_device: bool,
    /// The names that all devices have, if they have the same.
    layout: Option<Layout>,
    /// What selectors say of the devices, by the id of the selector.
    verdicts: Remembered<u64, [Verdict]>,
}

impl Compile for resource_v1::ResourceSlice {
    type Facts = ResourceSlice;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<ResourceSlice, ModelError> {
        let names = model.names();
        let Some(spec) = &self.spec else {
            return Err(ModelError::new("spec", "is missing"));
        };
        ResourceSlice::compile(spec, key, names).map_err(|error| error.under("spec"))
    }
}

impl ResourceSlice {
    fn compile(
        spec: &resource_v1::ResourceSliceSpec,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<ResourceSlice, ModelError> {
        let pool = spec.pool.as_ref();
        let pool_name = pool.map_or("", |pool| &pool.name);
        let devices = spec.devices.iter().enumerate().map(|(i, device)| {
            let compiled = Device::compile(device, &spec.driver, pool_name, names);
            compiled.map_err(|error| error.under(&format!("devices[{i}]")))
        });
        let devices: Box<[Device]> = devices.collect::<Result<_, _>>()?;
        let counters = spec.shared_counters.iter().enumerate().map(|(i, set)| {
            let compiled = CounterSet::compile(&set.name, &set.counters, names);
            compiled.map_err(|error| error.under(&format!("sharedCounters[{i}]")))
        });
        let selector = spec.node_selector.as_ref();
        let nodes =
            NodeSelection::compile(spec.node_name.as_ref(), spec.all_nodes, selector, names);
        Ok(ResourceSlice {
            key: SliceKey {
                pool: PoolKey {
                    driver: shared(&spec.driver, names),
                    pool: shared(pool_name, names),
                },
                generation: pool.map_or(0, |pool| pool.generation),
                name: key.name.clone(),
            },
            slice_count: pool.map_or(0, |pool| pool.resource_slice_count),
            nodes,
            is_per_device: spec.per_device_node_selection == Some(true),
            has_repeated_device: has_repeated(&devices),
            layout: Layout::of(&devices, names),
            devices,
            shared_counters: counters.collect::<Result<_, _>>()?,
            verdicts: Remembered::default(),
        })
    }

    /// What a selector says of each device, in order.
    pub(crate) fn verdicts(&self, selector: &Selector) -> Arc<[Verdict]> {
        self.verdicts.get(&selector.id, || {
            let mut verdicts = vec![Verdict::Refused; self.devices.len()];
            let note = |i: usize, verdict| verdicts[i] = verdict;
            selector.judge(&self.devices, self.layout.as_ref(), note);
            (selector.id, verdicts.into())
        })
    }

    /// What a selector says of each device of a slice with at most 64, not remembered.
    pub(crate) fn marks(&self, selector: &Selector) -> Marks {
        let mut marks = Marks::default();
        selector.judge(&self.devices, self.layout.as_ref(), |i, verdict| marks.note(i, verdict));
        marks
    }

    /// Whether the slice has counters that devices of its pool draw from. Every node looks at such a slice (S-DRA-30),
    /// and it contributes no devices (S-DRA-38).
    pub(crate) fn has_counters(&self) -> bool {
        !self.shared_counters.is_empty()
    }
}

fn has_repeated(devices: &[Device]) -> bool {
    let mut names: Vec<_> = devices.iter().map(|device| device.id.device).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
