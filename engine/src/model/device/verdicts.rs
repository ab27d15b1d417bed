//! Verdicts: what selectors say of devices. Devices that agree in what an expression looks at get one verdict.

use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::amount::NotedAmount;
use super::layout::{Layout, Place, places};
use super::published::{AttributeValue, Device};
use crate::cel::{self, CompileError, Program};
use crate::model::intern::Symbol;

/// What a selector says of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Refused,
    Selected,
    /// The expression does not compile, or failed on the device.
    Failed,
}

/// The verdicts on each device of a slice, as bits: bit `i` is the `i`th device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) selected: u64,
    pub(crate) failed: u64,
}

impl Marks {
    pub(super) fn note(&mut self, at: usize, verdict: Verdict) {
        match verdict {
            Verdict::Refused => {}
            Verdict::Selected => self.selected |= 1 << at,
            Verdict::Failed => self.failed |= 1 << at,
        }
    }
}

/// The verdicts of a selector, by the values that its expression looks at. A pure function of both, remembered.
#[derive(Debug, Default)]
pub(super) struct Judged(Mutex<SmallVec<[OfLayout; 1]>>);

/// Verdicts on devices of one layout.
#[derive(Debug)]
struct OfLayout {
    layout: Symbol,
    /// The places of what the expression looks at.
    places: SmallVec<[Place; 4]>,
    known: Vec<(bool, Box<[Value]>, Verdict)>,
}

#[derive(PartialEq, Debug)]
enum Value {
    Attribute(AttributeValue),
    Capacity(NotedAmount),
}

/// Most layouts, and most combinations of values, that a selector remembers.
const MAX_LAYOUTS: usize = 8;
const MAX_VALUES: usize = 16;

impl Judged {
    /// Calls `note` with the verdict of a selector's program on each device of a slice.
    ///
    /// Cost: an evaluation for each combination of values that the expression looks at; one for each device if what it
    /// looks at depends on the device, or if the devices have no common layout.
    pub(super) fn judge(
        &self,
        program: &Result<Program, CompileError>,
        devices: &[Device],
        layout: Option<&Layout>,
        mut note: impl FnMut(usize, Verdict),
    ) {
        let reads = program.as_ref().ok().and_then(Program::reads);
        let (Some(layout), Some(reads), Some(first)) = (layout, reads, devices.first()) else {
            devices.iter().enumerate().for_each(|(i, device)| note(i, verdict(program, device)));
            return;
        };
        let mut layouts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = layouts.iter().position(|of| of.layout == layout.id).unwrap_or_else(|| {
            if layouts.len() == MAX_LAYOUTS {
                layouts.remove(0);
            }
            let (layout, places) = (layout.id, places(reads, first));
            layouts.push(OfLayout { layout, places, known: Vec::new() });
            layouts.len() - 1
        });
        let of = &mut layouts[at];
        if layout.is_alike(&of.places, first) {
            let verdict = of.verdict(program, first);
            (0..devices.len()).for_each(|i| note(i, verdict));
        } else {
            devices.iter().enumerate().for_each(|(i, device)| note(i, of.verdict(program, device)));
        }
    }
}

impl OfLayout {
    fn verdict(&mut self, program: &Result<Program, CompileError>, device: &Device) -> Verdict {
        let is_it = |(is_shareable, values, _): &&(bool, Box<[Value]>, Verdict)| {
            *is_shareable == device.is_shareable
                && self.places.iter().zip(values).all(|(place, value)| value.is_at(*place, device))
        };
        if let Some((.., verdict)) = self.known.iter().find(is_it) {
            return *verdict;
        }
        let verdict = verdict(program, device);
        if self.known.len() < MAX_VALUES {
            let values = self.places.iter().map(|place| Value::at(*place, device)).collect();
            self.known.push((device.is_shareable, values, verdict));
        }
        verdict
    }
}

impl Value {
    fn at(place: Place, device: &Device) -> Value {
        match place {
            Place::Attribute(at) => Value::Attribute(device.attributes[at].1.clone()),
            Place::Capacity(at) => Value::Capacity(device.capacities[at].1.value.clone()),
        }
    }

    fn is_at(&self, place: Place, device: &Device) -> bool {
        match (self, place) {
            (Value::Attribute(value), Place::Attribute(at)) => device.attributes[at].1 == *value,
            (Value::Capacity(value), Place::Capacity(at)) => {
                device.capacities[at].1.value == *value
            }
            (Value::Attribute(_), Place::Capacity(_))
            | (Value::Capacity(_), Place::Attribute(_)) => false,
        }
    }
}

/// Evaluates a selector's program on a device.
fn verdict(program: &Result<Program, CompileError>, device: &Device) -> Verdict {
    let Ok(program) = program else { return Verdict::Failed };
    match program.evaluate(&device.for_expressions()).result {
        Ok(true) => Verdict::Selected,
        Ok(false) => Verdict::Refused,
        Err(_) => Verdict::Failed,
    }
}

impl Device {
    /// The device as expressions see it (S-DRA-110 to S-DRA-112).
    pub(crate) fn for_expressions(&self) -> cel::Device {
        self.for_expressions_as(self.is_shareable)
    }

    /// The device as expressions see it, with this answer to whether it allows multiple allocations.
    pub(crate) fn for_expressions_as(&self, is_shareable: bool) -> cel::Device {
        let attributes = self.attributes.iter().map(|(name, value)| {
            let value = match value {
                AttributeValue::Int(value) => cel::AttributeValue::Int(*value),
                AttributeValue::Bool(value) => cel::AttributeValue::Bool(*value),
                AttributeValue::String(value) => cel::AttributeValue::String(value),
                AttributeValue::Version(value) => cel::AttributeValue::Version(value),
                AttributeValue::Unknown => cel::AttributeValue::Missing,
            };
            (&**name, value)
        });
        let capacities = self.capacities.iter();
        let capacities =
            capacities.map(|(name, capacity)| (&**name, capacity.value.notation.as_str()));
        cel::Device::new(&self.driver, is_shareable, attributes, capacities)
    }
}
