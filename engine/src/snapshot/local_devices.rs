//! Local devices: for nodes that see devices of their own pools only, each of which is given to one claim or to none,
//! which are free and what selectors say of them, as bits.
//!
//! Most nodes with devices are like this, and all without any. The search need not look at their devices one by one to
//! tell whether a claim with one request fits (see `crate::devices::fit`).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::device::published::AttributeValue;
use crate::model::device::remembered::Remembered;
use crate::model::device::selector::Selector;
use crate::model::device::slice::ResourceSlice;
use crate::model::device::verdicts::Marks;
use crate::rows::{Column, RowSet};

/// Local devices of the nodes of a shard. Bit `i` stands for a node's `i`th device in the order of the search.
#[derive(Clone, Debug)]
pub(crate) struct LocalDevices {
    /// Rows whose nodes see nothing else; those without any devices, too.
    pub(crate) rows: RowSet,
    /// Devices that no claim holds.
    pub(crate) free: Column<u64>,
    lists: Arc<Lists>,
}

/// The slices of each row, and what is remembered of their devices.
#[derive(Clone, Debug)]
struct Lists {
    slices: Column<Slices>,
    marks: Remembered<u64, Column<Marks>>,
    groups: Remembered<Arc<str>, Column<Groups>>,
}

type Slices = SmallVec<[Arc<ResourceSlice>; 1]>;

/// The devices that have an attribute, by its value.
pub(crate) type Groups = SmallVec<[u64; 2]>;

/// The local devices of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalRow {
    pub(super) slices: Slices,
    pub(super) free: u64,
}

impl Default for LocalDevices {
    fn default() -> LocalDevices {
        LocalDevices { rows: RowSet::FULL, free: Column::default(), lists: Arc::default() }
    }
}

impl Default for Lists {
    fn default() -> Lists {
        let slices = Column(std::array::from_fn(|_| Slices::new()));
        Lists { slices, marks: Remembered::default(), groups: Remembered::default() }
    }
}

impl LocalDevices {
    /// Whether a row is as described; `None` describes a node that sees other devices, too.
    pub(crate) fn is(&self, row: usize, local: Option<&LocalRow>) -> bool {
        match local {
            None => !self.rows.contains(row),
            Some(LocalRow { slices, free }) => {
                self.rows.contains(row)
                    && self.free[row] == *free
                    && are_same(&self.lists.slices[row], slices)
            }
        }
    }

    /// Describes a row anew.
    pub(crate) fn set(&mut self, row: usize, local: Option<LocalRow>) {
        if local.is_some() {
            self.rows.insert(row);
        } else {
            self.rows.remove(row);
        }
        let LocalRow { slices, free } = local.unwrap_or_default();
        self.free[row] = free;
        if !are_same(&self.lists.slices[row], &slices) {
            Arc::make_mut(&mut self.lists).slices[row] = slices;
        }
    }

    /// What a selector says of the devices of each row.
    ///
    /// Cost: a look at a short list; at first what the selector costs for each slice.
    pub(crate) fn marks(&self, selector: &Selector) -> Arc<Column<Marks>> {
        self.lists.marks.get(&selector.id, || {
            let marks = std::array::from_fn(|row| marks(&self.lists.slices[row], selector));
            (selector.id, Arc::new(Column(marks)))
        })
    }

    /// The devices of each row by the value of an attribute.
    ///
    /// Cost: a look at a short list; at first a step for each device.
    pub(crate) fn groups(&self, name: &Arc<str>) -> Arc<Column<Groups>> {
        self.lists.groups.get(name, || {
            let groups = std::array::from_fn(|row| groups(&self.lists.slices[row], name));
            (name.clone(), Arc::new(Column(groups)))
        })
    }
}

fn are_same(ours: &Slices, theirs: &Slices) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
}

fn marks(slices: &Slices, selector: &Selector) -> Marks {
    let mut all = Marks::default();
    let mut at = 0;
    for slice in slices {
        let Marks { selected, failed } = slice.marks(selector);
        all.selected |= selected << at;
        all.failed |= failed << at;
        at += slice.devices.len();
    }
    all
}

fn groups(slices: &Slices, name: &str) -> Groups {
    let mut groups: SmallVec<[(&AttributeValue, u64); 2]> = SmallVec::new();
    for (i, device) in slices.iter().flat_map(|slice| &slice.devices).enumerate() {
        let Some(value) = device.attribute(name) else { continue };
        let known = groups.iter_mut().find(|(known, _)| *known == value);
        match known.filter(|_| *value != AttributeValue::Unknown) {
            Some((_, group)) => *group |= 1 << i,
            None => groups.push((value, 1 << i)),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
