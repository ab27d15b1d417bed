//! Layout: the names that all devices of a slice have, and which of their values are one for all. Drivers publish
//! devices that are much alike, so one look often settles a whole slice.

use smallvec::SmallVec;

use super::published::{AttributeValue, Device};
use crate::cel;
use crate::cel::reads::{Part, Read};
use crate::model::intern::{Interner, Symbol};

/// The names of the attributes and capacities of devices, in order, and their driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Equal for devices of one driver with equal names.
    pub(super) id: Symbol,
    /// Whether all devices have one value: attributes, then capacities, a bit each; 0 for names beyond the 64th.
    alike: u64,
}

/// The place of a value in a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Attribute(usize),
    Capacity(usize),
}

impl Layout {
    /// The layout of some devices of one driver; `None` if their names differ, or whether they allow multiple
    /// allocations, and if expressions fail on one of them whatever they say (S-DRA-112).
    pub(super) fn of(devices: &[Device], names: &Interner) -> Option<Layout> {
        let (first, others) = devices.split_first()?;
        if !devices.iter().all(can_be_converted) {
            return None;
        }
        let (attributes, capacities) = (&first.attributes, &first.capacities);
        let mut alike = u64::MAX;
        let mut differs = |place: usize| alike &= !1_u64.checked_shl(place as u32).unwrap_or(0);
        for device in others {
            if device.attributes.len() != attributes.len()
                || device.capacities.len() != capacities.len()
                || device.is_shareable != first.is_shareable
            {
                return None;
            }
            for (i, (ours, theirs)) in attributes.iter().zip(&device.attributes).enumerate() {
                if ours.0 != theirs.0 {
                    return None;
                }
                if ours.1 != theirs.1 {
                    differs(i);
                }
            }
            for (i, (ours, theirs)) in capacities.iter().zip(&device.capacities).enumerate() {
                if ours.0 != theirs.0 {
                    return None;
                }
                if ours.1.value != theirs.1.value {
                    differs(attributes.len() + i);
                }
            }
        }
        Some(Layout { id: names.intern(&text(first)), alike })
    }

    /// Whether all devices have one value in each of some places; `first` is one of the devices.
    pub(super) fn is_alike(&self, places: &[Place], first: &Device) -> bool {
        places.iter().all(|place| {
            let at = match place {
                Place::Attribute(at) => *at,
                Place::Capacity(at) => first.attributes.len() + at,
            };
            at < 64 && self.alike >> at & 1 == 1
        })
    }
}

/// The names as one text that no other names have.
fn text(device: &Device) -> String {
    let attributes = device.attributes.iter().map(|(name, _)| format!("a{}:{name}", name.len()));
    let capacities = device.capacities.iter().map(|(name, _)| format!("c{}:{name}", name.len()));
    let names: String = attributes.chain(capacities).collect();
    format!("{}:{}{names}", device.driver.len(), device.driver)
}

/// Whether no attribute or capacity makes every expression fail on the device.
fn can_be_converted(device: &Device) -> bool {
    let is_convertible = |value: &AttributeValue| match value {
        AttributeValue::Version(text) => cel::is_version(text),
        AttributeValue::Unknown => false,
        AttributeValue::Int(_) | AttributeValue::Bool(_) | AttributeValue::String(_) => true,
    };
    device.attributes.iter().all(|(_, value)| is_convertible(value))
        && device
            .capacities
            .iter()
            .all(|(_, capacity)| cel::is_amount(capacity.value.notation.as_str()))
}

/// Where a device of this layout has what an expression looks at. A name may be written with the driver's domain or
/// without (S-DRA-111).
pub(super) fn places(reads: &[Read], device: &Device) -> SmallVec<[Place; 4]> {
    let mut places = SmallVec::new();
    for read in reads {
        let qualified = format!("{}/{}", read.domain, read.id);
        let plain = (read.domain == *device.driver).then_some(&*read.id);
        for name in [Some(&*qualified), plain].into_iter().flatten() {
            let place = match read.of {
                Part::Attributes => device
                    .attributes
                    .binary_search_by(|(known, _)| (**known).cmp(name))
                    .map(Place::Attribute),
                Part::Capacity => device
                    .capacities
                    .binary_search_by(|(known, _)| (**known).cmp(name))
                    .map(Place::Capacity),
            };
            places.extend(place.ok());
        }
    }
    places
}
