//! Capacity: how much of each of its capacities a device gives to a request, and whether it has that much. Rules:
//! S-DRA-70 to S-DRA-73.

use std::borrow::Cow;
use std::sync::Arc;

use berth_proto::{Amount, Quantity};

use crate::model::device::amount::NotedAmount;
use crate::model::device::published::{Device, DeviceCapacity, RequestPolicy, RequestRange};
use crate::model::device::request::DeviceDemand;
use crate::snapshot::devices::DeviceUse;

/// Amounts of a device's capacities, in the device's order.
pub(super) type Drawn = Vec<Amount>;

/// Whether the device has what a request takes of each of its capacities, beside what others take (`held`) and what
/// was drawn in the search (`drawn`) (S-DRA-71, S-DRA-124).
pub(super) fn fits(
    device: &Device,
    demand: &DeviceDemand,
    held: Option<&DeviceUse>,
    drawn: Option<&Drawn>,
) -> bool {
    let has = |name: &Arc<str>| device.capacities.iter().any(|(known, _)| known == name);
    if !demand.capacity.iter().all(|(name, _)| has(name)) {
        return false;
    }
    device.capacities.iter().enumerate().all(|(i, (name, capacity))| {
        let taken = taken(capacity, asked(demand, name));
        if capacity.policy.as_ref().is_some_and(|policy| violates(&taken, policy)) {
            return false;
        }
        let of_others = held.map_or(Amount::ZERO, |held| held.consumed(name));
        let of_search = drawn.and_then(|drawn| drawn.get(i)).copied().unwrap_or_default();
        of_others + of_search + taken.value <= capacity.value.value
    })
}

/// The amount that a request takes of each capacity of a device (S-DRA-73), in the order of names.
pub(super) fn consumed(device: &Device, demand: &DeviceDemand) -> Vec<(Arc<str>, NotedAmount)> {
    let capacities = device.capacities.iter();
    capacities
        .map(|(name, capacity)| (name.clone(), taken(capacity, asked(demand, name)).into_owned()))
        .collect()
}

fn asked<'a>(demand: &'a DeviceDemand, name: &Arc<str>) -> Option<&'a NotedAmount> {
    demand.capacity.iter().find(|(known, _)| known == name).map(|(_, amount)| amount)
}

/// The amount that a request takes of a capacity (S-DRA-70).
fn taken<'a>(capacity: &'a DeviceCapacity, asked: Option<&'a NotedAmount>) -> Cow<'a, NotedAmount> {
    let policy = capacity.policy.as_ref();
    let Some(asked) = asked else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return Cow::Borrowed(default.unwrap_or(&capacity.value));
    };
    let Some(policy) = policy else { return Cow::Borrowed(asked) };
    if let Some(range) = &policy.valid_range
        && let Some(min) = &range.min
    {
        return in_range(asked, min, range);
    }
    let mut values = policy.valid_values.iter();
    Cow::Borrowed(values.find(|valid| valid.value >= asked.value).unwrap_or(asked))
}

/// An amount raised to the next one of a range, in whole units.
fn in_range<'a>(
    asked: &'a NotedAmount,
    min: &'a NotedAmount,
    range: &RequestRange,
) -> Cow<'a, NotedAmount> {
    if asked.value < min.value {
        return Cow::Borrowed(min);
    }
    let step = range.step.as_ref().map(|step| i128::from(step.value.value()));
    let Some(step) = step.filter(|step| *step != 0) else { return Cow::Borrowed(asked) };
    let (asked, min) = (i128::from(asked.value.value()), i128::from(min.value.value()));
    let (n_steps, rest) = ((asked - min) / step, (asked - min) % step);
    let raised = min + step * (n_steps + i128::from(rest != 0));
    let raised = i64::try_from(raised).unwrap_or(i64::MAX);
    let notation = in_binary_units(raised);
    Cow::Owned(NotedAmount { value: Amount::from_value(raised), notation })
}

/// A whole amount in the largest binary unit in which it is whole (S-DRA-73).
fn in_binary_units(amount: i64) -> Quantity {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let n_units = if amount == 0 { 0 } else { amount.trailing_zeros() as usize / 10 };
    let unit = n_units.min(UNITS.len() - 1);
    Quantity::new(format!("{}{}", amount >> (10 * unit), UNITS[unit]))
}

/// Whether a policy does not allow an amount (S-DRA-71).
fn violates(amount: &NotedAmount, policy: &RequestPolicy) -> bool {
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        return is_out_of_range(amount, range);
    }
    !policy.valid_values.is_empty()
        && policy.valid_values.iter().all(|valid| valid.value != amount.value)
}

fn is_out_of_range(amount: &NotedAmount, range: &RequestRange) -> bool {
    if range.max.as_ref().is_some_and(|max| amount.value > max.value) {
        return true;
    }
    let whole = |amount: &NotedAmount| i128::from(amount.value.value());
    let min = range.min.as_ref().map_or(0, whole);
    let step = range.step.as_ref().map_or(0, whole);
    step != 0 && (whole(amount) - min) % step != 0
}
