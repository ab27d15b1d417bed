//! How much of a capacity a request takes. Rules: S-DRA-70, S-DRA-71.

use berth_proto::Quantity;
use berth_proto::resource_v1::{CapacityRequestPolicy, DeviceCapacity};

use crate::naive::quantity::{Nanos, nanos};

/// One unit: generated ranges have whole numbers.
const UNIT: Nanos = 1_000_000_000;

/// The amount taken of a capacity (S-DRA-70).
pub(super) fn taken(capacity: &DeviceCapacity, asked: Option<&Quantity>) -> Nanos {
    let policy = capacity.request_policy.as_ref();
    let Some(asked) = asked.map(nanos) else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return nanos(default.or(capacity.value.as_ref()).expect("a capacity has a value"));
    };
    let Some(policy) = policy else { return asked };
    let range = policy.valid_range.as_ref();
    if let Some((range, min)) = range.and_then(|range| Some((range, nanos(range.min.as_ref()?)))) {
        if asked < min {
            return min;
        }
        return match range.step.as_ref().map(nanos) {
            None => asked,
            Some(step) => {
                (0..).map(|n| min + n * step).find(|value| *value >= asked).expect("endless")
            }
        };
    }
    policy.valid_values.iter().map(nanos).find(|valid| *valid >= asked).unwrap_or(asked)
}

/// Whether the policy allows an amount (S-DRA-71). Generated amounts that equal the default are in its notation.
pub(super) fn is_allowed(policy: Option<&CapacityRequestPolicy>, amount: Nanos) -> bool {
    let Some(policy) = policy else { return true };
    if policy.default.as_ref().map(nanos) == Some(amount) {
        return true;
    }
    if let Some(range) = &policy.valid_range {
        let min = range.min.as_ref().map_or(0, nanos) / UNIT;
        let is_below_max = range.max.as_ref().is_none_or(|max| amount <= nanos(max));
        let is_a_step = range
            .step
            .as_ref()
            .is_none_or(|step| (amount / UNIT - min) % (nanos(step) / UNIT) == 0);
        return is_below_max && is_a_step;
    }
    policy.valid_values.is_empty() || policy.valid_values.iter().any(|valid| nanos(valid) == amount)
}
