//! Constraints across the devices of a claim. Rules: S-DRA-55 to S-DRA-58.

use std::collections::BTreeMap;

use berth_proto::resource_v1::{Device, DeviceAttribute, DeviceConstraint};

use super::request::Ask;

/// A constraint and what it remembers.
pub(super) struct Constraint<'a> {
    constraint: &'a DeviceConstraint,
    n_devices: i64,
    first: Option<&'a DeviceAttribute>,
    /// By request, the value of its last device (S-DRA-58).
    last: BTreeMap<&'a str, &'a DeviceAttribute>,
}

impl<'a> Constraint<'a> {
    pub(super) fn new(constraint: &'a DeviceConstraint) -> Constraint<'a> {
        Constraint { constraint, n_devices: 0, first: None, last: BTreeMap::new() }
    }

    fn concerns(&self, ask: &Ask<'_>) -> bool {
        let names = &self.constraint.requests;
        names.is_empty() || names.iter().any(|name| name == ask.request || *name == ask.name)
    }

    /// Whether the device satisfies the constraint, which then remembers it.
    pub(super) fn add(&mut self, ask: &Ask<'a>, driver: &str, device: &'a Device) -> bool {
        if !self.concerns(ask) {
            return true;
        }
        if let Some(name) = &self.constraint.match_attribute {
            let Some(value) = attribute(driver, device, name) else { return false };
            if self.n_devices == 0 {
                self.first = Some(value);
            } else if self.first != Some(value) {
                return false;
            }
            self.n_devices += 1;
            return true;
        }
        let name = self.constraint.distinct_attribute.as_ref().expect("one of the two");
        let Some(value) = attribute(driver, device, name) else { return false };
        if self.last.values().any(|known| *known == value) {
            return false;
        }
        self.last.insert(ask.request, value);
        true
    }

    pub(super) fn remove(&mut self, ask: &Ask<'a>) {
        if self.concerns(ask) {
            self.n_devices -= 1;
            self.last.remove(ask.request);
        }
    }
}

/// S-DRA-56.
fn attribute<'a>(driver: &str, device: &'a Device, name: &str) -> Option<&'a DeviceAttribute> {
    device.attributes.get(name).or_else(|| {
        let (domain, id) = name.split_once('/')?;
        if domain == driver { device.attributes.get(id) } else { None }
    })
}
