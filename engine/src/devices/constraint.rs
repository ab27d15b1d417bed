//! Constraints across the devices of a claim, while devices are chosen one after another. Rules: S-DRA-55 to S-DRA-58.

use crate::model::device::constraint::{ConstraintRule, DeviceConstraint};
use crate::model::device::published::{AttributeValue, Device};

/// A constraint with the devices chosen so far, as far as it has to remember them.
#[derive(Debug)]
pub(super) struct ConstraintState<'a> {
    constraint: &'a DeviceConstraint,
    n_devices: usize,
    /// `matchAttribute`: the value of the first device.
    first: Option<&'a AttributeValue>,
    /// `distinctAttribute`: the last value of each request (S-DRA-58).
    last: Vec<(&'a str, &'a AttributeValue)>,
}

/// The request that a device is chosen for.
#[derive(Copy, Clone, Debug)]
pub(super) struct For<'a> {
    pub(super) request: &'a str,
    pub(super) alternative: Option<&'a str>,
}

impl<'a> ConstraintState<'a> {
    pub(super) fn new(constraint: &'a DeviceConstraint) -> ConstraintState<'a> {
        ConstraintState { constraint, n_devices: 0, first: None, last: Vec::new() }
    }

    /// Whether the constraint allows a further device; it then counts the device.
    pub(super) fn add(&mut self, asking: For<'a>, device: &'a Device) -> bool {
        if !concerns(self.constraint, asking) {
            return true;
        }
        match &self.constraint.rule {
            ConstraintRule::Match(name) => {
                let Some(value) = device.attribute(name) else { return false };
                if self.n_devices == 0 {
                    self.first = Some(value);
                } else if *value == AttributeValue::Unknown || self.first != Some(value) {
                    return false;
                }
                self.n_devices += 1;
                true
            }
            ConstraintRule::Distinct(name) => {
                let Some(value) = device.attribute(name) else { return false };
                let is_unlike =
                    |known: &AttributeValue| *value != AttributeValue::Unknown && known != value;
                if !self.last.iter().all(|(_, known)| is_unlike(known)) {
                    return false;
                }
                self.forget(asking.request);
                self.last.push((asking.request, value));
                true
            }
            ConstraintRule::Unknown => true,
        }
    }

    /// Gives a device back.
    pub(super) fn remove(&mut self, asking: For<'a>) {
        if concerns(self.constraint, asking) {
            self.n_devices = self.n_devices.saturating_sub(1);
            // The value of another device of the request is forgotten, too (S-DRA-58).
            self.forget(asking.request);
        }
    }

    fn forget(&mut self, request: &str) {
        self.last.retain(|(known, _)| *known != request);
    }
}

/// Whether a constraint applies to devices of a request (S-DRA-55).
pub(super) fn concerns(constraint: &DeviceConstraint, asking: For<'_>) -> bool {
    let names = &constraint.requests;
    let is_alternative = |name: &str| {
        let parts = name.split_once('/').zip(asking.alternative);
        parts.is_some_and(|((request, alternative), asked)| {
            request == asking.request && alternative == asked
        })
    };
    names.is_empty() || names.iter().any(|name| **name == *asking.request || is_alternative(name))
}
