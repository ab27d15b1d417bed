//! Verdicts: what selectors say of the devices of a slice, evaluated once for each version of the slice.

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use super::published::Device;
use super::selector::Selector;
use crate::cel;

/// What a selector says of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Refused,
    Selected,
    /// The expression does not compile, or failed on the device.
    Failed,
}

/// The verdicts of selectors on each device of a slice: a pure function of both, remembered. A copy starts with nothing,
/// and any two are equal.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<Known>);

/// Verdicts on each device by the id of the selector.
type Known = SmallVec<[(u64, Arc<[Verdict]>); 2]>;

/// Most selectors whose verdicts a slice remembers.
const MAX_SELECTORS: usize = 32;

impl Verdicts {
    /// The verdicts on some devices, those of the slice that the verdicts belong to.
    ///
    /// Cost: one evaluation for each device at first, a look at a short list later.
    pub(super) fn of(&self, selector: &Selector, devices: &[Device]) -> Arc<[Verdict]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verdicts)) = known.iter().find(|(id, _)| *id == selector.id) {
            return verdicts.clone();
        }
        let verdicts: Arc<[Verdict]> =
            devices.iter().map(|device| verdict(selector, device)).collect();
        if known.len() == MAX_SELECTORS {
            known.remove(0);
        }
        known.push((selector.id, verdicts.clone()));
        verdicts
    }
}

impl Clone for Verdicts {
    fn clone(&self) -> Verdicts {
        Verdicts::default()
    }
}

impl PartialEq for Verdicts {
    fn eq(&self, _: &Verdicts) -> bool {
        true
    }
}

/// Evaluates a selector on a device.
fn verdict(selector: &Selector, device: &Device) -> Verdict {
    let Ok(program) = &selector.program else { return Verdict::Failed };
    match program.evaluate(&device.for_expressions()).result {
        Ok(true) => Verdict::Selected,
        Ok(false) => Verdict::Refused,
        Err(_) => Verdict::Failed,
    }
}

/// Why a selector fails on a device, as kube-scheduler words it (S-DRA-51).
pub(crate) fn failure(selector: &Selector, device: &Device) -> String {
    match &selector.program {
        Err(error) => format!("CEL compile error: {error}"),
        Ok(program) => match program.evaluate(&device.for_expressions()).result {
            Ok(_) => String::new(),
            Err(error) => format!("CEL runtime error: {error}"),
        },
    }
}

impl Device {
    /// The device as expressions see it (S-DRA-110 to S-DRA-112).
    pub(crate) fn for_expressions(&self) -> cel::Device {
        self.for_expressions_as(self.is_shareable)
    }

    /// The device as expressions see it, with this answer to whether it allows multiple allocations.
    pub(crate) fn for_expressions_as(&self, is_shareable: bool) -> cel::Device {
        use super::published::AttributeValue;
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
